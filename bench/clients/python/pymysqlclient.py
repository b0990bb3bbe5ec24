"""The script for PyMySQL, which has no prepared statements: it writes values into the text."""

import pymysql
from pymysql.constants import CLIENT

from seen import COLUMNS, INSERT, rows


def connect(o, user="ann", password="s3cret", db="shop"):
    return pymysql.connect(
        host=o["host"], port=int(o["port"]), user=user, password=password, database=db,
        charset=o.get("charset", "utf8mb4"), local_infile=True, autocommit=True,
        ssl={"check_hostname": False} if "tls" in o else None, ssl_disabled="tls" not in o,
        client_flag=CLIENT.MULTI_STATEMENTS)


def run(o, seen):
    cnx = connect(o)
    seen.thread = cnx.thread_id()
    seen.say(1, "Connect", user="ann", db="shop")
    if "charset" in o:
        simple(cnx, seen, 2, "SELECT '\u4e2d\u6587', '\u8a93'" if o["charset"] == "gbk" else "SELECT 'd\u00e9j\u00e0'")
        cnx.close()
        return
    simple(cnx, seen, 3, "TRUNCATE TABLE kinds")
    insert = INSERT % (COLUMNS, ",".join(["%s"] * 17))
    for n, row in enumerate(rows(int(o["mid"]), int(o["big"]))):
        simple(cnx, seen, 10 + n, insert, row)
    for step, text in (
            (30, "SELEC 1"), (31, "SELECT * FROM nowhere"), (32, "INSERT INTO kinds (id) VALUES (1)"),
            (40, "SELECT 1; INSERT INTO kinds (id) VALUES (50),(51); SELECT id FROM kinds WHERE id >= 50; INSERT INTO kinds (id) VALUES (52)"),
            (41, "CALL several(4, @total)"),
            (42, "LOAD DATA LOCAL INFILE '%s' INTO TABLE loaded FIELDS TERMINATED BY ','" % o["file"]),
            (43, "SELECT * FROM loaded")):
        simple(cnx, seen, step, text)
    session(cnx, seen, o)


def simple(cnx, seen, step, text, values=None):
    cur = cnx.cursor()
    sent = cur.mogrify(text, values) if values else text
    try:
        cur.execute(text, values)
        n = affected = 0
        while True:
            fetched = cur.fetchall() if cur.description else ()
            n += len(fetched)
            if not cur.description:
                affected += cur.rowcount
            if not cur.nextset():
                break
        seen.say(step, "Query", sent, rows=n, affected=affected, error=0)
    except pymysql.MySQLError as e:
        seen.say(step, "Query", sent, error=e.args[0])
    cur.close()


def session(cnx, seen, o):
    cnx.ping(reconnect=False)
    seen.say(50, "Ping", error=0)
    cnx.select_db("other")
    seen.say(51, "Init DB", "other", error=0)
    simple(cnx, seen, 52, "SELECT DATABASE()")
    try:
        cnx.select_db("missing")
    except pymysql.MySQLError as e:
        seen.say(57, "Init DB", "missing", error=e.args[0])
    try:
        connect(o, password="wrong")
    except pymysql.MySQLError as e:
        seen.say(58, "Refused", user="ann", error=e.args[0])
    victim = connect(o, user="bob", db="other")
    cnx.kill(victim.thread_id())  # which sends a statement
    seen.say(59, "Query", "KILL %d" % victim.thread_id(), error=0)
    cnx.close()
    seen.say(60, "Quit")

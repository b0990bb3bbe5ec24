"""The script for mysql-connector-python, in pure Python and with its C extension."""

import io

import mysql.connector
from mysql.connector.constants import ClientFlag

from seen import COLUMNS, INSERT, rows


def connect(o, user="ann", password="s3cret", db="shop"):
    return mysql.connector.connect(
        host=o["host"], port=int(o["port"]), user=user, password=password, database=db,
        use_pure=o["driver"] == "pure", compress="compress" in o, ssl_disabled="tls" not in o,
        charset=o.get("charset", "utf8mb4"), collation=o.get("collation", "utf8mb4_general_ci"),
        allow_local_infile=True, autocommit=True)


def run(o, seen):
    cnx = connect(o)
    seen.thread = cnx.connection_id
    seen.times = o["driver"] == "pure"  # the C extension 9.4.0 sends uninitialized bytes for a TIME
    seen.say(1, "Connect", user="ann", db="shop")
    if "charset" in o:
        simple(cnx, seen, 2, "SELECT '\u4e2d\u6587', '\u8a93'")
        cnx.close()
        return
    simple(cnx, seen, 3, "TRUNCATE TABLE kinds")
    prepared(cnx, seen, o)
    errors(cnx, seen)
    results(cnx, seen, o)
    session(cnx, seen, o)


def simple(cnx, seen, step, text):
    """One statement with the text protocol."""
    cur = cnx.cursor()
    try:
        cur.execute(text)
        fetched = cur.fetchall() if cur.with_rows else []
        seen.say(step, "Query", text, rows=len(fetched), error=0,
                 affected=None if cur.with_rows else max(cur.rowcount, 0))
    except mysql.connector.Error as e:
        seen.say(step, "Query", text, error=e.errno)
    cur.close()


def execute(cur, seen, step, text, params):
    """One execution; the cursor prepares when its text changes."""
    try:
        cur.execute(text, params)
        fetched = cur.fetchall() if cur.description else []
        seen.say(step, "Execute", text, params, rows=len(fetched), error=0,
                 affected=None if cur.description else max(cur.rowcount, 0))
    except mysql.connector.Error as e:
        # The client does not say whether the server refused to prepare or to execute.
        prepare = e.errno in (1064, 1146)
        seen.say(step, "Prepare" if prepare else "Execute", text, None if prepare else params, error=e.errno)


def prepared(cnx, seen, o):
    insert = INSERT % (COLUMNS, ",".join("?" * 17))
    cur = cnx.cursor(prepared=True)
    for n, row in enumerate(rows(int(o["mid"]), int(o["big"]))):
        execute(cur, seen, 10 + n, insert, row)
    execute(cur, seen, 19, insert, (3,) + (None,) * 16)
    if o["driver"] == "pure":  # the C extension does not take streams
        stream = b"L" * int(o["mid"])
        text = "UPDATE kinds SET i8 = ?, b = ? WHERE id = ?"
        cur.execute(text, (9, io.BytesIO(stream), 1))
        seen.say(20, "Execute", text, ["9", "<long data, %d bytes>" % len(stream), "1"], affected=cur.rowcount, error=0)
        execute(cur, seen, 21, text, (8, b"short", 1))
    cur.close()
    for step, text, params in (
            (22, "SELECT * FROM kinds WHERE id < ? AND id > ? ORDER BY id", (6, 0)),
            (23, "SELECT id, '?', `s` /* ? */ FROM kinds WHERE s = ? OR s IS NULL -- ?", ("",)),
            (24, "SELECT id FROM kinds WHERE id = ?", (-1,))):
        cur = cnx.cursor(prepared=True)
        execute(cur, seen, step, text, params)
        cur.close()


def errors(cnx, seen):
    simple(cnx, seen, 30, "SELEC 1")
    simple(cnx, seen, 31, "SELECT * FROM nowhere")
    simple(cnx, seen, 32, "INSERT INTO kinds (id) VALUES (1)")
    for step, text in ((33, "SELEC ?"), (34, "SELECT * FROM nowhere WHERE a = ?")):
        cur = cnx.cursor(prepared=True)
        execute(cur, seen, step, text, (1,))
        cur.close()


def results(cnx, seen, o):
    text = "SELECT 1; INSERT INTO kinds (id) VALUES (50),(51); SELECT id FROM kinds WHERE id >= 50; INSERT INTO kinds (id) VALUES (52)"
    cur = cnx.cursor()
    n = affected = 0
    cur.execute(text)
    for _ in range(4):
        if cur.with_rows:
            n += len(cur.fetchall())
        else:
            affected += cur.rowcount
        cur.nextset()
    seen.say(40, "Query", text, rows=n, affected=affected, error=0)
    cur.close()
    cur = cnx.cursor()
    cur.callproc("several", (4, 0))
    seen.say(41, "Query", "CALL several(@_several_arg1,@_several_arg2)",
             rows=sum(len(r.fetchall()) for r in cur.stored_results()), error=0)
    cur.close()
    simple(cnx, seen, 42, "LOAD DATA LOCAL INFILE '%s' INTO TABLE loaded FIELDS TERMINATED BY ','" % o["file"])
    simple(cnx, seen, 43, "SELECT * FROM loaded")


def session(cnx, seen, o):
    cnx.ping()
    seen.say(50, "Ping", error=0)
    cnx.database = "other"
    simple(cnx, seen, 51, "SELECT DATABASE()")
    if o["driver"] == "c" or "compress" not in o:  # the pure driver refuses both together
        cnx.cmd_change_user("bob", "s3cret", "shop")
        seen.say(52, "Change user", user="bob", db="shop", error=0)
        simple(cnx, seen, 53, "SELECT USER(), DATABASE()")
    cnx.cmd_reset_connection()
    seen.say(54, "Reset connection", error=0)
    simple(cnx, seen, 55, "SELECT DATABASE()")
    if o["driver"] == "pure":
        cnx.cmd_statistics()
        seen.say(56, "Statistics")
    try:
        cnx.cmd_init_db("missing")
    except mysql.connector.Error as e:
        seen.say(57, "Init DB", "missing", error=e.errno)
    try:
        connect(o, password="wrong")
    except mysql.connector.Error as e:
        seen.say(58, "Refused", user="ann", error=e.errno)
    victim = connect(o, user="bob", db="other")
    cnx.cmd_process_kill(victim.connection_id)  # which sends a statement
    seen.say(59, "Query", "KILL %d" % victim.connection_id, error=0)
    cnx.close()
    seen.say(60, "Quit")

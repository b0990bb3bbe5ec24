"""What a client saw, and the values that the scripts bind."""

import datetime
import decimal
import json


class Seen:
    """Writes one line for each thing that the client did."""

    def __init__(self, out):
        self.out = out
        self.thread = 0
        self.times = True  # the driver sends a timedelta as it is

    def say(self, step, word, text="", params=None, **result):
        """Result holds what the client was told: rows, affected, error, db, user."""
        line = {"step": step, "thread": self.thread, "word": word}
        if text:
            line["text"] = text
        if params is not None:
            line["params"] = ["\\?" if isinstance(p, datetime.timedelta) and not self.times else as_text(p) for p in params]
        line.update({k: v for k, v in result.items() if v is not None})
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()


def as_text(value):
    """The value as MySQL prints it; bytes in hex behind \\x; \\? where the driver changes it.

    mysql-connector-python 9.4.0 sends a negative time as another one.
    """
    if value is None:
        return None
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, datetime.timedelta):
        if value < datetime.timedelta():
            return "\\?"
        return "%02d:%02d:%02d.%06d" % (value.seconds // 3600, value.seconds // 60 % 60, value.seconds % 60, value.microseconds)
    return str(value)


COLUMNS = "id,i8,i16,i32,i64,u8,u16,u32,u64,f,d,n,dt,ts,ti,s,b"
INSERT = "INSERT INTO kinds (%s) VALUES (%s)"


def rows(mid, big):
    """Rows of the table kinds: lowest, highest, NULL, and texts of all sizes."""
    numbers = (-128, -32768, -(2**31), -(2**63), 255, 65535, 2**32 - 1, 2**63 - 1)
    yield (1, *numbers, 1.5, -2.25e-10, decimal.Decimal("-12345678901234567890.123456"),
           datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 23, 59, 58, 123456),
           datetime.timedelta(hours=8, minutes=7, seconds=6, microseconds=5),
           "it's \"quoted\", a \\ and a ?", bytes(range(256)))
    yield (2, 127, 32767, 2**31 - 1, 2**63 - 1, 0, 1, 2, 3, -0.0, 1e30, decimal.Decimal("0.000001"),
           datetime.date(1000, 1, 1), datetime.datetime(9999, 12, 31, 0, 0, 0),
           datetime.timedelta(hours=-3, microseconds=-5), "", b"")
    yield (3,) + (None,) * 16
    yield (4, None, 1, None, 2, None, 3, None, 4, None, 0.5, None, None, None, None, "d\u00e9 \u4e2d \U0001f600", None)
    yield (5,) + (None,) * 14 + ("x" * 255, b"\x00\xff" * 125)
    yield (6,) + (None,) * 14 + ("m" * mid, b"n" * mid)
    yield (7,) + (None,) * 14 + ("B" * big, None)

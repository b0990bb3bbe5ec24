"""Runs the numbered script with one of Python's MySQL clients.

    client.py driver=pure|c|pymysql host=… port=… file=… mid=… big=… [compress=1] [charset=…]

It prints what the client itself saw, one JSON object per line; the fields are
those of the Go type View. mid and big are the sizes of the longer values, file
is a CSV file for LOAD DATA LOCAL.
"""

import sys

import connector
import pymysqlclient
from seen import Seen


def main():
    options = dict(arg.split("=", 1) for arg in sys.argv[1:])
    script = pymysqlclient.run if options["driver"] == "pymysql" else connector.run
    script(options, Seen(sys.stdout))


if __name__ == "__main__":
    main()

"""A client of 'sqlwitness receive' in Python: it sends the events that it reads as JSON,
one a line, in batches, and prints how many were acknowledged.

usage: client.py DIRECTORY_OF_GENERATED_CODE PORT AGENT
"""
import sys

sys.path.insert(0, sys.argv[1])

from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from events import from_json
from sqlwitness.audit import Collector
from sqlwitness.audit.ttypes import Batch

transport = TTransport.TFramedTransport(TSocket.TSocket("127.0.0.1", int(sys.argv[2])))
client = Collector.Client(TBinaryProtocol.TBinaryProtocol(transport))
transport.open()
events = [from_json(line) for line in sys.stdin]
acknowledged = 0
for at in range(0, len(events), 50):
    acknowledged += client.put(Batch(agent=sys.argv[3], events=events[at:at + 50])).events
transport.close()
print(acknowledged)

"""A collector of sqlwitness in Python: it takes batches by Thrift and prints their
events as JSON, one a line, after it has printed the port on which it listens.

usage: collector.py DIRECTORY_OF_GENERATED_CODE
"""
import sys

sys.path.insert(0, sys.argv[1])

from thrift.protocol import TBinaryProtocol
from thrift.server import TServer
from thrift.transport import TSocket, TTransport

from events import to_json
from sqlwitness.audit import Collector
from sqlwitness.audit.ttypes import Ack


class Handler:
    def put(self, batch):
        for event in batch.events:
            print(to_json(event, batch.agent))
        sys.stdout.flush()
        return Ack(events=len(batch.events))


class Port(TSocket.TServerSocket):
    def listen(self):
        super().listen()
        print(self.handle.getsockname()[1], flush=True)


TServer.TThreadedServer(
    Collector.Processor(Handler()),
    Port("127.0.0.1", 0),
    TTransport.TFramedTransportFactory(),
    TBinaryProtocol.TBinaryProtocolFactory(),
    daemon=True,
).serve()

"""An Event of audit.thrift as JSON and back. The names are those of the IDL; nothing
else is known of the event here."""
import json

from thrift.Thrift import TType

from sqlwitness.audit.ttypes import Event, Param

FIELDS = {spec[2]: spec for spec in Event.thrift_spec if spec}


def to_json(event, agent):
    out = {}
    for name in FIELDS:
        value = getattr(event, name)
        if value is None:
            continue
        if name == "extra":
            out.update(json.loads(value))
        elif name == "params":
            out[name] = [p.value for p in value]
        else:
            out[name] = value
    assert out["agent"] == agent
    return json.dumps(out)


def from_json(line):
    event, extra = Event(), {}
    for name, value in json.loads(line).items():
        spec = FIELDS.get(name)
        if spec is None or spec[1] == TType.STRUCT:
            extra[name] = value
        elif name == "params":
            event.params = [Param(value=v) for v in value]
        else:
            setattr(event, name, value)
    if extra:
        event.extra = json.dumps(extra)
    return event

"""Racks and rooms out of a CMDB that answers in pages: the same discoverer as ../rust, which says what the service answers."""

from urllib.parse import quote

import topoloom
from topoloom import Elements, Failure, Problems, Topology

# The longest name of a rack or a room: two of them have to fit into an identity of 512 bytes, each byte as `%2F`.
NAME = 80


@topoloom.plugin
class Discoverer:
    name, version, vendor, summary = "cmdb", "0.1.0", "Acme", "Racks and rooms of a CMDB"
    fields = {"pageSize": [int, 500]}

    def configure(self, config):
        if not 1 <= config["pageSize"] <= 1000:
            raise Problems(("pageSize", f"expected 1 to 1000 devices per page, got {config['pageSize']}"))
        why = "Reads the rack and the room of every device"
        cmdb = topoloom.endpoint("cmdb", why, paths=["/devices"], credentials=["bearer", "basic"])
        return topoloom.requirements(endpoints=[cmdb], triggers=[topoloom.on("timer"), topoloom.on("names")])

    def discover(self, config, input):
        places, moved, every, odd = read(config["pageSize"], input.http)
        # A list with many records that cannot be read is of another form, and no list with few racks.
        if odd * 20 > every:
            raise Failure("upstream", f"{odd} of {every} devices cannot be read")
        answer = Topology()
        rack_level, room_level = answer.level(1, name="rack"), answer.level(2, name="room")
        rooms, placed, twice, names = {}, set(), [], sorted(places)
        for name, row in zip(names, input.nodes.find(names)):
            if row is not None:
                room, rack = places[name]
                rooms.setdefault(room, {}).setdefault(rack, []).append(row)
                placed.add(row)
                if name in moved:
                    twice.append(row)
        for room in sorted(rooms):
            members = []
            for rack, rows in sorted(rooms[room].items()):
                id, said = f"{encoded(room)}/{encoded(rack)}", f"rack {rack} in room {room}"
                members.append(answer.group(rack_level, id, rows=rows, description=said))
            answer.group(room_level, encoded(room), groups=members)
        absent = [row for row in range(input.nodes.rows) if row not in placed]
        if absent:
            answer.diagnose("not-in-cmdb", "no device has the name of this node", rows=absent)
        if twice:
            answer.diagnose("listed-twice", "it is listed twice, with different places; the first one counts", rows=twice)
        if odd:
            answer.diagnose("unusable-device", f"{odd} of {every} devices have no name, rack and room")
        return answer


def read(page_size, http):
    """All pages: the place of each device, those that are listed with two places, how many there are, how many are odd."""
    places, moved, every, odd, cursors = {}, set(), 0, 0, set()
    path = f"/devices?limit={page_size}"
    while True:
        items = Elements(http.send("cmdb", path, headers={"accept": "application/json"}).success(), "items")
        for device in items:
            every += 1
            name, place = place_of(device)
            if place is None:
                odd += 1
            elif places.setdefault(name, place) != place:
                moved.add(name)
        if not items.found:
            raise Failure("upstream", "there is no list of devices in the answer")
        cursor = items.envelope.get("next")
        if cursor in (None, ""):
            return places, moved, every, odd
        if not isinstance(cursor, str):
            raise Failure("upstream", "the page has no usable `next`")
        # Otherwise the limit of requests would end the round, after a thousand of them.
        if cursor in cursors:
            raise Failure("upstream", "the same page follows twice")
        cursors.add(cursor)
        path = f"/devices?limit={page_size}&cursor={encoded(cursor)}"


def place_of(device):
    """The name of a device and its room and rack; nothing where one of them is missing or too long."""
    if not isinstance(device, dict):
        return None, None
    name, *place = (device.get(key) for key in ("name", "room", "rack"))
    is_name = isinstance(name, str) and name != ""
    if is_name and all(isinstance(part, str) and 0 < len(part.encode()) <= NAME for part in place):
        return name, tuple(place)
    return None, None


def encoded(text):
    """A text as part of a query, or of an identity: without the characters that separate its parts."""
    return quote(text, safe="")

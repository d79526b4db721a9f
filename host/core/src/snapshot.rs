//! Placeholder, replaced by the room.

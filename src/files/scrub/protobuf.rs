//! Scrubs traces of Perfetto and profiles of XLA as streams of protocol buffers: numbers and the order of fields stay, texts lose their
//! private words, and what no reader needs is emptied (`forms`). Lengths are written anew. Compressed packets are packed again.
//!
//! Needs the memory of one outermost message and of its copy: a packet, or the plane of a device. Damage stays damage: what follows it
//! in its message is left out, and a byte that no field begins with is written instead.

use super::forms::{Form, FormId, Holds, form, form_named};
use super::json::scrubbed_text;
use super::removal::{Removal, is_of_names, is_private_key, kind_of_key, kind_of_unread};
use crate::input::is_xspace;
use crate::input::perfetto::{inflate::Inflater, is_perfetto, packet};
use crate::input::protobuf::{Broken, Message, MessageSplitter, Value};
use flate2::{Compression, write::ZlibEncoder};
use std::collections::BTreeMap;
use std::io::Write;

/// No field begins with this byte: its number would be zero.
const DAMAGE: u8 = 0x07;
/// The head of a field of one byte, which does not follow: the end of a file that is cut.
const CUT: [u8; 2] = [0x0a, 1];
/// Deeper messages are emptied. Only annotations contain others of their kind.
const MAX_DEPTH: usize = 32;

/// The names of keys that say something private, by the number that messages refer to.
type Keys = BTreeMap<u64, String>;

#[derive(Debug)]
pub(super) struct ProtobufScrubber {
    splitter: MessageSplitter,
    messages: Messages,
}

/// The state between two outermost messages.
#[derive(Debug)]
enum Messages {
    /// The keys by sequence of packets.
    Perfetto {
        keys: BTreeMap<u64, Keys>,
        inflater: Inflater,
    },
    XSpace,
}

impl ProtobufScrubber {
    /// The scrubber of a file with this beginning; `None` for other formats.
    pub(super) fn of(first_bytes: &[u8]) -> Option<Self> {
        let messages = match () {
            () if is_xspace(first_bytes) => Messages::XSpace,
            () if is_perfetto(first_bytes) => {
                Messages::Perfetto { keys: BTreeMap::new(), inflater: Inflater::default() }
            }
            () => return None,
        };
        Some(Self { splitter: MessageSplitter::default(), messages })
    }

    /// Scrubs the messages that are whole with these bytes.
    pub(super) fn push(&mut self, bytes: &[u8], removal: &mut Removal, out: &mut Vec<u8>) {
        let Self { splitter, messages } = self;
        splitter.feed(bytes, &mut |number, message| messages.take(number, message, removal, out));
    }

    /// Ends the copy as the file ends. Returns whether it is damaged or cut.
    pub(super) fn finish(&self, out: &mut Vec<u8>) -> bool {
        match self.splitter.finish() {
            Some(Broken::Cut { .. }) => out.extend(CUT),
            Some(Broken::Damaged(_)) => out.push(DAMAGE),
            None => return false,
        }
        true
    }
}

impl Messages {
    fn take(&mut self, number: u32, message: Message<'_>, removal: &mut Removal, out: &mut Vec<u8>) {
        match self {
            Self::Perfetto { keys, inflater } if number == 1 => {
                let compressed = message.last(packet::COMPRESSED).ok().flatten();
                field(1, out, |out| match compressed {
                    Some(compressed) => repacked(compressed.message(), keys, inflater, removal, out),
                    None => scrub_packet(message, keys, removal, out),
                });
            }
            Self::Perfetto { .. } => Rewriter::of("perfetto", &Keys::new(), removal, |it, form| {
                it.value(form.holds(number), (number, message), out);
            }),
            Self::XSpace => {
                let keys = if number == 1 { keys_of_plane(message) } else { Keys::new() };
                Rewriter::of("xspace", &keys, removal, |it, form| {
                    it.value(form.holds(number), (number, message), out);
                });
            }
        }
    }
}

/// Writes the fields of a packet.
fn scrub_packet(message: Message<'_>, keys: &mut BTreeMap<u64, Keys>, removal: &mut Removal, out: &mut Vec<u8>) {
    let sequence = message.last(packet::SEQUENCE).ok().flatten().map_or(0, Value::number);
    if is_cleared(message) {
        keys.remove(&sequence);
    }
    let interned = message.last(packet::INTERNED).ok().flatten();
    for (id, key) in interned.into_iter().flat_map(|interned| keys_of(interned.message(), 3, &named)) {
        keys.entry(sequence).or_default().insert(id, key);
    }
    let none = Keys::new();
    Rewriter::of("packet", keys.get(&sequence).unwrap_or(&none), removal, |it, form| it.fields(form, message, out));
}

/// Whether the interned names of a packet's sequence end.
fn is_cleared(packet: Message<'_>) -> bool {
    packet.fields().flatten().any(|(number, value)| match number {
        packet::FLAGS => value.number() & packet::STATE_CLEARED_FLAG != 0,
        packet::STATE_CLEARED => value.number() != 0,
        _ => false,
    })
}

/// Scrubs the packets in a compressed one, and compresses them again.
fn repacked(
    compressed: Message<'_>,
    keys: &mut BTreeMap<u64, Keys>,
    inflater: &mut Inflater,
    removal: &mut Removal,
    out: &mut Vec<u8>,
) {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    let mut inner = Vec::new();
    let unpacked = inflater.each_packet(compressed, &mut |packet| {
        inner.clear();
        field(1, &mut inner, |inner| scrub_packet(packet, keys, removal, inner));
        // A vector takes all bytes.
        let _ = packer.write_all(&inner);
    });
    if unpacked.is_err() {
        let _ = packer.write_all(&[DAMAGE]);
    }
    let packed = packer.finish().unwrap_or_default();
    field(packet::COMPRESSED, out, |out| out.extend_from_slice(&packed));
}

/// The private keys among the names of stats of a plane.
fn keys_of_plane(plane: Message<'_>) -> Keys {
    keys_of(plane, 5, &|entry| {
        let (id, name) = named(entry.last(2).ok()??.message())?;
        Some((entry.last(1).ok()?.map_or(id, Value::number), name))
    })
}

/// The private keys among the entries in a field of a message.
fn keys_of(message: Message<'_>, list: u32, read: &dyn Fn(Message<'_>) -> Option<(u64, String)>) -> Keys {
    let entries = message.fields().map_while(Result::ok).filter(|(number, _)| *number == list);
    entries.filter_map(|(_, entry)| read(entry.message())).filter(|(_, name)| is_private_key(name)).collect()
}

/// The number (1) and the name (2) of an entry.
fn named(entry: Message<'_>) -> Option<(u64, String)> {
    let name = entry.last(2).ok()??.message().text().into_owned();
    Some((entry.last(1).ok()?.map_or(0, Value::number), name))
}

/// Writes a field whose value is what `write` appends.
fn field(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    const WITH_LENGTH: u64 = 2;
    varint(u64::from(number) << 3 | WITH_LENGTH, out);
    let start = out.len();
    write(out);
    let end = out.len();
    varint((end - start) as u64, out);
    let length_bytes = out.len() - end;
    out.get_mut(start..).into_iter().for_each(|value| value.rotate_right(length_bytes));
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes messages without what is private.
struct Rewriter<'a> {
    keys: &'a Keys,
    removal: &'a mut Removal,
    depth: usize,
}

impl<'a> Rewriter<'a> {
    /// Rewrites with the fields of the message of this name.
    fn of(name: &str, keys: &'a Keys, removal: &'a mut Removal, write: impl FnOnce(&mut Self, &'static Form)) {
        if let Some(found) = form_named(name) {
            write(&mut Self { keys, removal, depth: 0 }, form(found));
        }
    }

    /// Writes the fields of a message up to its end or its damage.
    fn fields(&mut self, form: &Form, message: Message<'_>, out: &mut Vec<u8>) {
        let private = if form.has_key() { self.private_key(form, message) } else { None };
        let mut fields = message.fields();
        while let Some(found) = fields.next_with_bytes() {
            match found {
                Ok((_, Value::Number(_), bytes)) => out.extend_from_slice(bytes),
                Ok((number, Value::Message(value), _)) => {
                    let holds = self.of_key(form.holds(number), private.as_deref(), value);
                    self.value(holds, (number, value), out);
                }
                Err(_) => {
                    out.push(DAMAGE);
                    return;
                }
            }
        }
    }

    /// The key that says what a message holds, if that is private.
    fn private_key(&self, form: &Form, message: Message<'_>) -> Option<String> {
        let keys = message.fields().map_while(Result::ok).filter(|(number, _)| form.holds(*number) == Holds::Key);
        let names = keys.filter_map(|(_, key)| match key {
            Value::Number(id) => self.keys.get(&id).cloned(),
            Value::Message(text) => Some(text.text().into_owned()),
        });
        names.filter(|name| is_private_key(name)).last()
    }

    /// What a value is under a private key; names of hosts and users are learned.
    fn of_key(&mut self, holds: Holds, key: Option<&str>, value: Message<'_>) -> Holds {
        let (Some(key), true) = (key, holds != Holds::Key) else { return holds };
        self.removal.learn(key, &value.text());
        kind_of_key(key).map_or(holds, Holds::Removed)
    }

    /// Writes a field that holds a text or message.
    fn value(&mut self, holds: Holds, (number, value): (u32, Message<'_>), out: &mut Vec<u8>) {
        field(number, out, |out| match holds {
            Holds::Message(found) if self.depth < MAX_DEPTH => self.nested(found, value, out),
            Holds::Packed => out.extend_from_slice(value.bytes),
            Holds::Text | Holds::Key => out.extend_from_slice(scrubbed_text(&value.text(), self.removal).as_bytes()),
            Holds::Name => out.extend_from_slice(self.name(&value.text()).as_bytes()),
            Holds::Removed(kind) => self.removed(kind, value),
            Holds::Message(_) | Holds::Unread => self.removed(kind_of_unread(), value),
        });
    }

    fn nested(&mut self, found: FormId, value: Message<'_>, out: &mut Vec<u8>) {
        self.depth += 1;
        self.fields(form(found), value, out);
        self.depth -= 1;
    }

    fn removed(&mut self, kind: &'static str, value: Message<'_>) {
        if is_of_names(kind) {
            self.removal.learn_name(&value.text());
        }
        self.removal.add(kind, u64::from(!value.bytes.is_empty()));
    }

    /// The name of a plane, such as `/device:GPU:0`, or of a line, such as `python/4711`. They are no paths.
    fn name(&mut self, name: &str) -> String {
        for start in ["/device:", "/host:"] {
            if let Some(rest) = name.strip_prefix(start) {
                return format!("{start}{}", self.removal.text(rest));
            }
        }
        match name.rsplit_once('/') {
            Some((thread, id)) if id.bytes().all(|digit| digit.is_ascii_digit()) => {
                format!("{}/{id}", self.removal.text(thread))
            }
            _ => self.removal.text(name).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::protobuf::testing::Writer;
    use std::collections::BTreeMap;

    fn message() -> Writer {
        Writer::default()
    }

    /// The copy and the number of removed things by kind, for chunks of this size.
    fn scrubbed_in(bytes: &[u8], chunk: usize) -> (Vec<u8>, BTreeMap<String, u64>) {
        let (mut removal, mut out) = (Removal::default(), Vec::new());
        for is_learning in [true, false] {
            out.clear();
            let mut scrubber = ProtobufScrubber::of(bytes).unwrap();
            bytes.chunks(chunk).for_each(|chunk| scrubber.push(chunk, &mut removal, &mut out));
            scrubber.finish(&mut out);
            if is_learning {
                removal.end_learning();
            }
        }
        (out, removal.counts().into_iter().collect())
    }

    fn scrubbed(bytes: &[u8]) -> (Vec<u8>, BTreeMap<String, u64>) {
        let whole = scrubbed_in(bytes, usize::MAX);
        assert_eq!(scrubbed_in(bytes, 3), whole, "chunks do not matter");
        whole
    }

    fn contains(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    }

    fn packet_of(event: Writer) -> Writer {
        message().message(1, message().number(8, 5).number(10, 1).message(11, event))
    }

    #[test]
    fn public_messages_stay_byte_for_byte_and_lengths_follow_the_texts() {
        let public =
            packet_of(message().number(9, 1).fixed(47, 7).bytes(22, "kernel_dispatch").bytes(23, "gemm_kernel"));
        assert_eq!(scrubbed(&public.0), (public.0.clone(), BTreeMap::new()));
        let private = packet_of(message().bytes(23, "zorblax_gemm_kernel").number(9, 1));
        let (copy, _) = scrubbed(&private.0);
        let event =
            Message { bytes: &copy, at: 0 }.last(1).unwrap().unwrap().message().last(11).unwrap().unwrap().message();
        let name = event.last(23).unwrap().unwrap().message().text().into_owned();
        assert!(name.starts_with("zq") && name.ends_with("_gemm_kernel"), "{name}");
        assert_eq!(event.last(9).unwrap().unwrap().number(), 1);
    }

    #[test]
    fn values_of_private_keys_and_what_no_reader_needs_are_emptied() {
        let note = |key: &str, value: &str| message().bytes(10, key).bytes(6, value);
        let by_id = message().number(1, 4).bytes(6, "copy kernel 7");
        let event = message().message(4, note("hostname", "host-17")).message(4, by_id).bytes(23, "gemm_host_17");
        let names = message().message(12, message().message(3, message().number(1, 4).bytes(2, "argv"))).number(10, 1);
        let process = message().number(1, 9).bytes(2, "python").bytes(2, "copy").bytes(6, "python");
        let packets = message()
            .message(1, names)
            .message(1, message().message(60, message().number(1, 2).message(3, process)))
            .message(1, message().message(2, message().bytes(1, "process tree")));
        let bytes = [packets.0, packet_of(event).0].concat();
        let (copy, counts) = scrubbed(&bytes);
        for gone in ["host-17", "host_17", "copy", "tree"] {
            assert!(!contains(&copy, gone), "{gone}");
        }
        assert!(contains(&copy, "hostname") && contains(&copy, "gemm_zq"));
        let counts: Vec<(&str, u64)> = counts.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        assert_eq!(counts.first(), Some(&("command-line arguments", 3)));
        assert!(
            counts.contains(&("names of hosts and users", 1)) && counts.contains(&(kind_of_unread(), 1)),
            "{counts:?}"
        );
    }

    #[test]
    fn hosts_and_binary_values_of_an_xla_profile_go_and_planes_and_threads_keep_their_names() {
        let named = |id: i64, name: &str| message().number(1, id).message(2, message().number(1, id).bytes(2, name));
        let stat = message().number(1, 1).bytes(5, "copy-user");
        let event =
            message().number(1, 1).number(2, 9).message(4, stat).message(4, message().number(1, 2).bytes(6, "proto"));
        let line = message().bytes(2, "python/139924567890123").message(4, event);
        let plane = message()
            .bytes(2, "/host:CPU")
            .message(3, line)
            .message(4, named(1, "$/data/gemm/x.py:10 run on gemm-node-3"))
            .message(5, named(1, "user_name"));
        let space = message().message(1, plane).bytes(4, "gemm-node-3");
        let (copy, counts) = scrubbed(&space.0);
        for kept in ["/host:CPU", "python/139924567890123", ".py:10 run on zq", "user_name"] {
            assert!(contains(&copy, kept), "{kept}");
        }
        for gone in ["node-3", "copy-user", "proto", "gemm"] {
            assert!(!contains(&copy, gone), "{gone}");
        }
        assert_eq!((counts["names of hosts and users"], counts[kind_of_unread()]), (2, 1));
    }

    #[test]
    fn compressed_packets_are_packed_again_and_damage_stays_damage() {
        let inner = packet_of(message().bytes(23, "zorblax")).0;
        let pack = |bytes: &[u8]| {
            let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
            packer.write_all(bytes).unwrap();
            packer.finish().unwrap()
        };
        let whole = message().message(1, message().bytes(packet::COMPRESSED, pack(&inner))).0;
        let unpack = |bytes: &[u8]| {
            let (copy, _) = scrubbed(bytes);
            let packet = Message { bytes: &copy, at: 0 }.last(1).unwrap().unwrap().message();
            let compressed = packet.last(packet::COMPRESSED).unwrap().unwrap().message();
            let mut count = 0;
            let result = Inflater::default().each_packet(compressed, &mut |packet| {
                assert!(!contains(packet.bytes, "zorblax") && contains(packet.bytes, "zq"));
                count += 1;
            });
            (count, result.is_ok())
        };
        assert_eq!(unpack(&whole), (1, true));
        let packed = pack(&inner);
        let cut = message().message(1, message().bytes(packet::COMPRESSED, &packed[..packed.len() - 4])).0;
        assert_eq!(unpack(&cut), (1, false));
        let damaged = [packet_of(Writer(vec![0x48, 1, 0x0b, 1])).0, inner.clone(), vec![0x0f, 0x0f]].concat();
        let (copy, _) = scrubbed(&damaged);
        assert_eq!(copy.last(), Some(&DAMAGE));
        assert!(contains(&copy, "\u{48}\u{1}\u{7}") && contains(&copy, "zq"));
        let (copy, _) = scrubbed(&[inner, vec![0x0a, 9, 8]].concat());
        assert!(copy.ends_with(&CUT));
    }
}

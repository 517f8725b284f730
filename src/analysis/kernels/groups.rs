//! GPU ops summed by what they share: name, device, stream, process and kind. Most tables of sums are made of these sums, so that they
//! need no pass over millions of ops of their own.

use crate::analysis::index;
use crate::analysis::index::{Inside, Part};
use crate::ordering::StableSort;
use crate::trace::{DeviceId, GpuOp, NameId, Ns, OpKind, Places, ProcessId, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The ops of one name on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: NameId,
    pub(crate) device: DeviceId,
    pub(crate) process: ProcessId,
    /// The stream; -1 where the trace does not tell.
    pub(crate) stream: i64,
    pub(crate) kind: OpKind,
    pub(crate) count: u64,
    /// Sum of durations.
    pub(crate) total: Ns,
    pub(crate) shortest: Ns,
    pub(crate) longest: Ns,
    /// The place of the first.
    at: usize,
    /// The first start.
    pub(crate) first: Ns,
    /// The last end.
    pub(crate) last: Ns,
}

/// Sums of a trace's ops, a group for those of one name, device, stream, process and kind, in the order of their first ops.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    pub(crate) groups: Vec<Group>,
    /// Ops that start before the one ahead on the same stream has ended.
    pub(crate) overlapping: u64,
}

/// A stream that the trace tells, and how far its ops reach.
struct Stream {
    of: (DeviceId, ProcessId, i64),
    reach: Ns,
}

impl Groups {
    /// Of a whole trace, or of a window that has these pieces inside.
    pub(crate) fn of(trace: &Trace, inside: Option<&Inside>) -> Self {
        let Some(inside) = index::known(inside) else { return Self::at(trace, &trace.gpu_ops.places()) };
        let (mut all, mut known) = (Self::default(), HashMap::default());
        for part in index::parts(trace, Some(inside)) {
            match part {
                Part::Edge(edge) => all.merge(&Self::at(trace, &edge), &mut known, &|group| *group),
                Part::Piece(piece, inside, _) => all.merge(&piece.groups, &mut known, &|group| Group {
                    name: inside.name(group.name),
                    at: inside.place(group.at),
                    ..*group
                }),
            }
        }
        // Of devices that are cut apart some begin in a piece before what is ahead of them.
        all.groups.order_by_key(|group| group.at);
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Of the ops at these places.
    pub(crate) fn at(trace: &Trace, places: &Places) -> Self {
        let mut found = Self::default();
        let (mut streams, mut stream_of_group): (Vec<Stream>, Vec<usize>) = (Vec::new(), Vec::new());
        trace.gpu_ops.for_each_grouped(trace.names.len(), places, |op| {
            if op.group as usize == found.groups.len() {
                let Some(first) = trace.gpu_ops.get(op.row) else { return };
                found.groups.push(Group::of(op.row, &first));
                stream_of_group.push(stream(&mut streams, &first));
            }
            let end = op.start.after(op.duration);
            if let Some(group) = found.groups.get_mut(op.group as usize) {
                group.count += 1;
                group.total += op.duration;
                group.shortest = group.shortest.min(op.duration);
                group.longest = group.longest.max(op.duration);
                group.last = group.last.max(end);
            }
            let stream = stream_of_group.get(op.group as usize).and_then(|stream| streams.get_mut(*stream));
            if let Some(stream) = stream {
                found.overlapping += u64::from(op.start < stream.reach);
                stream.reach = stream.reach.max(end);
            }
        });
        found
    }

    /// Adds what comes behind, nothing of which overlaps on its device with what is there. `known` are the places of groups; `here`
    /// tells a group as this trace does.
    fn merge(&mut self, more: &Self, known: &mut HashMap<Key, usize, RandomState>, here: &dyn Fn(&Group) -> Group) {
        self.overlapping += more.overlapping;
        for group in more.groups.iter().map(here) {
            let key = (group.name, group.device, group.process, group.stream, group.kind);
            let place = *known.entry(key).or_insert(self.groups.len());
            match self.groups.get_mut(place) {
                Some(known) => known.merge(&group),
                None => self.groups.push(group),
            }
        }
    }
}

type Key = (NameId, DeviceId, ProcessId, i64, OpKind);

impl Group {
    /// Of an op that is not counted yet.
    fn of(at: usize, op: &GpuOp) -> Self {
        Self {
            at,
            name: op.name,
            device: op.device,
            process: op.process,
            stream: op.stream,
            kind: op.kind,
            count: 0,
            total: Ns::ZERO,
            shortest: op.duration,
            longest: op.duration,
            first: op.start,
            last: op.end(),
        }
    }

    /// Adds those of the same name and stream that come behind.
    fn merge(&mut self, more: &Self) {
        self.count += more.count;
        self.total += more.total;
        self.shortest = self.shortest.min(more.shortest);
        self.longest = self.longest.max(more.longest);
        self.last = self.last.max(more.last);
    }
}

/// The place of the op's stream, new or known; none where the trace does not tell it.
fn stream(streams: &mut Vec<Stream>, op: &GpuOp) -> usize {
    if op.stream < 0 {
        return usize::MAX;
    }
    let of = (op.device, op.process, op.stream);
    streams.iter().position(|stream| stream.of == of).unwrap_or_else(|| {
        streams.push(Stream { of, reach: Ns(i64::MIN) });
        streams.len() - 1
    })
}

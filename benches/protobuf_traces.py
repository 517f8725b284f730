"""Writes a large XSpace (XLA) or Perfetto trace (rocprofv3) for measurements. The bytes are the same on every run.

usage: python3 protobuf_traces.py OUT [MEGABYTES]

OUT ends in `.xplane.pb` or `.pftrace` and gets about that many megabytes (default 1000): kernels, each with the call that launched it.
XSpace: eight GPUs with four streams each, and the threads that launch. Perfetto: two GPUs, in the packets of rocprofv3 (ROCm 7).
No number in them was measured.
"""
import functools
import sys

MEGABYTE = 1_000_000
START_NS = 1_704_161_511_420_000_000
NAMES = [f"void ck::kernel_gemm_xdl_cshuffle_v3<ck::Gemm_{i}>(ck::Argument)" for i in range(40)]


@functools.lru_cache(maxsize=65_536)
def varint(value):
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, *parts):
    inner = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(inner)) + inner


def text(field, value):
    return message(field, value.encode())


class XSpace:
    """Each GPU has four streams, and each of them a thread that launches. Their lines follow one another and have times after their own
    start, so only the events of one line are encoded. What differs in the others is the correlation, of always four bytes."""

    GPUS, STREAMS, BLOCK = 8, 4, 20_000
    FIRST_CORRELATION = 1 << 21
    GPU_STATS = ["correlation_id", "kernel_details", "hlo_op", "hlo_module", "context_id", "tf_op", "occupancy_pct"]
    DETAILS = "regs:128 static_shared:0 dynamic_shared:65536 grid:256,1,1 block:256,1,1 occ_pct:25"
    HOST_STATS = ["correlation_id"]

    def entries(self, stats, names):
        """The maps of a plane: names of events, and of stats, after which come the texts that stats refer to."""
        entries = [message(4, number(1, i), message(2, number(1, i), text(2, name))) for i, name in enumerate(names, 1)]
        return entries + [message(5, number(1, i), message(2, number(1, i), text(2, name))) for i, name in enumerate(stats, 1)]

    def event(self, times, texts):
        """An event, cut where its correlation belongs."""
        stats = b"".join(message(4, number(1, stat), number(7, text)) for stat, text in texts)
        mark = varint(self.FIRST_CORRELATION)
        before, after = message(4, times, stats, message(4, number(1, 1), number(3, self.FIRST_CORRELATION))).rsplit(mark, 1)
        assert not after
        return before

    def kernels(self):
        for i in range(self.BLOCK):
            name = i % len(NAMES)
            times = number(1, name + 1) + number(2, (i * 10_000 + 8_000) * 1_000) + number(3, (6_000 + i % 997) * 1_000)
            yield self.event(times, enumerate((8, 9 + name, 49, 50, 9 + name), 2))

    def calls(self):
        for i in range(self.BLOCK):
            yield self.event(number(1, 1) + number(2, i * 10_000_000) + number(3, 3_000_000), ())

    def lines(self, name, stream, blocks, events):
        """A line lasts 0.2 s. Correlations are those of its place among all lines of the GPUs."""
        for block in range(blocks):
            first = self.FIRST_CORRELATION + (stream * blocks + block) * self.BLOCK
            parts = [part for i, event in enumerate(events) for part in (event, varint(first + i))]
            start = START_NS + block * self.BLOCK * 10_000
            yield message(3, number(1, stream + 1), text(2, name), number(3, start), *parts)

    def write(self, out, size):
        kernels, calls = list(self.kernels()), list(self.calls())
        bytes_of_block = sum(map(len, kernels + calls)) + 8 * self.BLOCK
        blocks = size // (self.GPUS * self.STREAMS * bytes_of_block) or 1
        texts = [self.DETAILS] + [f"fusion.{i}" for i in range(len(NAMES))] + ["jit_train_step", "0"]
        stats, threads = self.entries(self.GPU_STATS + texts, NAMES), []
        for gpu in range(self.GPUS):
            streams = []
            for stream in range(gpu * self.STREAMS, (gpu + 1) * self.STREAMS):
                streams += self.lines(f"Stream #{stream + 13}(Kernel)", stream, blocks, kernels)
                threads += self.lines(f"Host Threads/{4242 + stream}", stream, blocks, calls)
            out.write(message(1, number(1, gpu), text(2, f"/device:GPU:{gpu}"), *streams, *stats))
        out.write(message(1, text(2, "/host:CPU"), *threads, *self.entries(self.HOST_STATS, ["hipLaunchKernel"])))
        return 2 * self.GPUS * self.STREAMS * blocks * self.BLOCK


class Perfetto:
    """Each slice is two packets. rocprofv3 writes all that it knows about a call or kernel as annotations."""

    CATEGORIES = ["hip_api", "kernel_dispatch"]
    KEYS = ["begin_ns", "end_ns", "delta_ns", "tid", "kind", "operation", "corr_id", "ancestor_id", "stream_ID", "agent", "agent_type",
            "queue", "kernel_id", "Scratch_Size", "LDS_Block_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count", "workgroup_size",
            "grid_size"]
    FIXED = {"Scratch_Size": 0, "LDS_Block_Size": 65_536, "VGPR_Count": 128, "Accum_VGPR_Count": 0, "SGPR_Count": 96,
             "workgroup_size": 256, "grid_size": 65_536}
    BEGIN, END, THREAD, STREAM, PID = 1, 2, 4711, 160, 4711
    SEQUENCE = number(13, 2) + number(10, 2)

    def note(self, key, value):
        name = number(1, self.KEYS.index(key) + 1)
        return message(4, name, text(6, value) if isinstance(value, str) else number(3, value))

    def head(self):
        names = ["hipLaunchKernel"] + NAMES
        interned = [message(field, number(1, i), text(2, name))
                    for field, texts in ((1, self.CATEGORIES), (2, names), (3, self.KEYS)) for i, name in enumerate(texts, 1)]
        process = message(60, number(1, 81), message(3, number(1, self.PID), text(6, "llm-server")))
        thread = message(60, number(1, self.THREAD), number(5, 81), text(2, "THREAD 1 (4711)"))
        streams = [message(60, number(1, self.STREAM + i), number(5, 81), text(2, f'STREAM [" {i} "] ')) for i in range(2)]
        yield message(1, number(8, START_NS), number(13, 1), number(10, 2), message(12, *interned), number(87, 1))
        for track in (process, thread, *streams):
            yield message(1, number(8, START_NS), self.SEQUENCE, track)

    def slice(self, track, category, name, start, end, notes):
        flow = varint(47 << 3 | 1) + (start % (1 << 63)).to_bytes(8, "little")
        times = self.note("begin_ns", start) + self.note("end_ns", end) + self.note("delta_ns", end - start)
        begin = message(11, number(9, self.BEGIN), number(11, track), number(3, category), number(10, name), flow, times, notes)
        yield message(1, number(8, start), self.SEQUENCE, begin)
        yield message(1, number(8, end), self.SEQUENCE, message(11, number(9, self.END), number(11, track)))

    def pair(self, i):
        start, stream = START_NS + i * 10_000, i % 2
        common = self.note("tid", 4711) + self.note("corr_id", i + 1) + self.note("stream_ID", stream)
        call = common + self.note("kind", 5) + self.note("operation", 200) + self.note("ancestor_id", 0)
        yield from self.slice(self.THREAD, 1, 1, start, start + 3_000, call)
        kernel = common + self.note("kind", 11) + self.note("agent", f"Agent-{stream + 4}") + self.note("agent_type", "GPU")
        kernel += self.note("queue", stream) + self.note("kernel_id", i % len(NAMES)) + self.fixed
        end = start + 14_000 + i % 997
        yield from self.slice(self.STREAM + stream, 2, 2 + i % len(NAMES), start + 8_000, end, kernel)

    def write(self, out, size):
        self.fixed = b"".join(self.note(key, value) for key, value in self.FIXED.items())
        written, rows = sum(out.write(packet) for packet in self.head()), 0
        while written < size:
            written += out.write(b"".join(self.pair(rows)))
            rows += 1
        return 2 * rows


def main(path, megabytes):
    writer = XSpace() if path.endswith(".pb") else Perfetto()
    with open(path, "wb") as out:
        rows = writer.write(out, megabytes * MEGABYTE)
        print(f"{rows:,} kernels and calls, {out.tell() / MEGABYTE:,.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not sys.argv[1].endswith((".xplane.pb", ".pftrace")):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 1000)

#!/usr/bin/env python3
"""Captures a real torch.profiler trace of a small decoder, for gpuprism or any other reader of such traces.

    python3 capture_torch.py OUT.json.gz            # decode steps replay a graph: their real durations
    python3 capture_torch.py OUT.json.gz --eager    # the same work without the graph: the code of each kernel

It needs PyTorch built for CUDA or ROCm, a GPU, and nothing else. The decoder has random weights in half precision; the
workload is one prefill step, launched kernel by kernel, and then decode steps that each replay one CUDA graph (a HIP
graph on ROCm) and hand their tokens to the host, as an LLM server does. The steps carry names by record_function.
With --eager the decode steps launch their kernels one by one, and Python stacks and shapes are recorded.
"""

import sys

try:
    import torch
    import torch.nn.functional as F
    from torch.profiler import ProfilerActivity, profile, record_function
except ImportError as missing:
    sys.exit(f"capture_torch.py needs PyTorch, built for CUDA or ROCm ({missing}): see https://pytorch.org/get-started")

LAYERS, HIDDEN, HEADS, INNER, VOCABULARY = 8, 1024, 16, 4096, 32_000
BATCH, PROMPT, DECODE_STEPS, EAGER_DECODE_STEPS = 8, 512, 32, 3
CONTEXT = PROMPT + DECODE_STEPS


def weights(device, *shape):
    return torch.randn(*shape, device=device, dtype=torch.float16) * 0.02


def norm(x, scale):
    return F.layer_norm(x, (HIDDEN,), scale)


class Layer:
    """Attention over a key/value cache of fixed size, and a gated MLP."""

    def __init__(self, device):
        self.attention_norm = torch.ones(HIDDEN, device=device, dtype=torch.float16)
        self.mlp_norm = torch.ones_like(self.attention_norm)
        self.qkv = weights(device, 3 * HIDDEN, HIDDEN)
        self.output = weights(device, HIDDEN, HIDDEN)
        self.gate_up = weights(device, 2 * INNER, HIDDEN)
        self.down = weights(device, HIDDEN, INNER)
        self.keys = torch.zeros(BATCH, HEADS, CONTEXT, HIDDEN // HEADS, device=device, dtype=torch.float16)
        self.values = torch.zeros_like(self.keys)

    def forward(self, x, positions, mask):
        x = x + self.attend(norm(x, self.attention_norm), positions, mask)
        gate, up = F.linear(norm(x, self.mlp_norm), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)

    def attend(self, x, positions, mask):
        heads = F.linear(x, self.qkv).view(BATCH, -1, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind(0)
        self.keys.index_copy_(2, positions, key)
        self.values.index_copy_(2, positions, value)
        mixed = F.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask)
        return F.linear(mixed.transpose(1, 2).reshape(BATCH, -1, HIDDEN), self.output)


class Decoder:
    def __init__(self, device):
        self.embedding = weights(device, VOCABULARY, HIDDEN)
        self.layers = [Layer(device) for _ in range(LAYERS)]
        self.final_norm = torch.ones(HIDDEN, device=device, dtype=torch.float16)
        self.places = torch.arange(CONTEXT, device=device)

    def next_tokens(self, tokens, positions):
        """The most likely token after `tokens` (batch x length), which stand at `positions` (length): batch x 1."""
        mask = self.places <= positions[:, None]
        x = F.embedding(tokens, self.embedding)
        for layer in self.layers:
            x = layer.forward(x, positions, mask)
        return F.linear(norm(x[:, -1:], self.final_norm), self.embedding).argmax(dim=-1)


class Workload:
    """A prompt to prefill, and decode steps captured in a graph over tensors that stay where they are."""

    def __init__(self, device):
        self.decoder = Decoder(device)
        self.prompt = torch.randint(VOCABULARY, (BATCH, PROMPT), device=device)
        self.prompt_positions = torch.arange(PROMPT, device=device)
        self.tokens = torch.zeros(BATCH, 1, dtype=torch.long, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)

    def prefill(self):
        self.tokens.copy_(self.decoder.next_tokens(self.prompt, self.prompt_positions))
        self.position.fill_(PROMPT)

    def decode(self):
        self.tokens.copy_(self.decoder.next_tokens(self.tokens, self.position))
        self.position.add_(1)

    def captured_decode(self):
        # Libraries set themselves up on first use, which a capture does not allow: run it on a side stream before.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.decode()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.decode()
        return graph


def serve(workload, decode, steps):
    with record_function(f"prefill bs={BATCH} tokens={BATCH * PROMPT}"):
        workload.prefill()
    for _ in range(steps):
        with record_function(f"decode bs={BATCH}"):
            decode()
            # A server needs the tokens on the host to send them out; the GPU waits meanwhile.
            workload.tokens.tolist()


def main():
    arguments = sys.argv[1:]
    eager = arguments[1:] == ["--eager"]
    if not arguments or not arguments[0].endswith(".json.gz") or not (eager or len(arguments) == 1):
        sys.exit("usage: python3 capture_torch.py OUT.json.gz [--eager]")
    if not torch.cuda.is_available():
        sys.exit("capture_torch.py needs a GPU: PyTorch finds neither a CUDA nor a ROCm device on this machine.")
    out = arguments[0]
    torch.manual_seed(0)
    with torch.no_grad():
        workload = Workload(torch.device("cuda"))  # ROCm devices answer to this name too
        decode = workload.decode if eager else workload.captured_decode().replay
        steps = EAGER_DECODE_STEPS if eager else DECODE_STEPS
        serve(workload, decode, steps)  # once without the profiler, so that the trace shows no warm-up
        torch.cuda.synchronize()
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with profile(activities=activities, with_stack=eager, record_shapes=eager) as profiler:
            serve(workload, decode, steps)
            torch.cuda.synchronize()
    profiler.export_chrome_trace(out)
    print(f"{out}: one prefill step and {steps} decode steps on {torch.cuda.get_device_name()}")


if __name__ == "__main__":
    main()

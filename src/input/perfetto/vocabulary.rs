//! The names of categories and annotations that profilers write, and what they mean.

/// What the category of a slice says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Category {
    /// A kernel of rocprofv3.
    Dispatch,
    /// A copy of rocprofv3.
    Copy,
    /// A call of the HIP API or of RCCL, by rocprofv3.
    HipCall,
    /// A call that a HIP call makes; it would count twice.
    InnerCall,
    /// A range of rocprofv3.
    Marker,
    /// An op of unitrace.
    GpuOp,
    /// A call of unitrace, or a framework op of PyTorch.
    CpuOp,
    /// A call of the CUDA API, by PyTorch.
    CudaCall,
    /// A range of PyTorch.
    Annotation,
    /// A Python function, by PyTorch.
    Python,
    /// A kernel of Proton, if its track is that of a stream.
    Kernel,
    /// A scope of Proton.
    Scope,
    Other,
}

impl Category {
    pub(super) fn named(name: &[u8]) -> Self {
        match name {
            b"kernel_dispatch" => Self::Dispatch,
            b"memory_copy" => Self::Copy,
            b"hip_api" | b"rccl_api" => Self::HipCall,
            b"hsa_api" => Self::InnerCall,
            b"marker_api" => Self::Marker,
            b"gpu_op" => Self::GpuOp,
            b"cpu_op" => Self::CpuOp,
            b"cuda_runtime" | b"cuda_driver" => Self::CudaCall,
            b"user_annotation" => Self::Annotation,
            b"python_function" => Self::Python,
            b"kernel" => Self::Kernel,
            b"scope" => Self::Scope,
            _ => Self::Other,
        }
    }
}

/// What an annotation says, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Begin,
    End,
    Agent,
    Source,
    Target,
    Queue,
    Stream,
    Correlation,
    Bytes,
    CallStack,
    Other,
}

impl Key {
    pub(super) fn named(name: &[u8]) -> Self {
        match name {
            b"begin_ns" => Self::Begin,
            b"end_ns" => Self::End,
            b"agent" => Self::Agent,
            b"src_agent" => Self::Source,
            b"dst_agent" => Self::Target,
            b"queue" => Self::Queue,
            b"stream_ID" | b"stream_id" => Self::Stream,
            b"corr_id" | b"correlation" => Self::Correlation,
            b"copy_bytes" => Self::Bytes,
            b"call_stack" => Self::CallStack,
            _ => Self::Other,
        }
    }
}

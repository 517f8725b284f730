//! Captures from servers that imitate SGLang, vLLM, TensorRT-LLM and TokenSpeed.

mod doctor;
mod exchange;
mod failures;
mod fake;
mod files;

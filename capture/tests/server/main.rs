//! Captures from servers that imitate SGLang, vLLM, TensorRT-LLM and TokenSpeed.

mod doctor;
mod exchange;
mod fake;

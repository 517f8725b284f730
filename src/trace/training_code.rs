//! When host threads ran the parts of a training step, by the names of CPU ops or ranges.

use super::HostTimes;

/// Times by part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrainingCode {
    /// The backward pass: functions of autograd.
    pub backward: HostTimes,
    /// The part of the backward pass that runs a forward pass again, because its results were not kept.
    pub recomputed: HostTimes,
    /// The optimizer changes the weights.
    pub optimizer: HostTimes,
    /// The optimizer clears the gradients.
    pub zero_grad: HostTimes,
    /// The loader of the data hands over a batch.
    pub loading: HostTimes,
}

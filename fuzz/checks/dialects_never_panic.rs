//! No file of rocprofv3, rocmProfileData, torch_npu, Proton, XLA or Perfetto causes a panic on the way to any output. The first byte chooses the
//! beginning that makes it one of them; the rest may be anything.

use super::whole_way;

const BEGINNINGS: [&[u8]; 8] = [
    b"\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n",
    b"{\"rocprofiler-sdk-tool\":[{\"buffer_records\":{\"kernel_dispatch\":[",
    b"[ {}\n,{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":\"2\",\"args\":{\"name\":\"GPU2\"}}\n",
    b"[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"Ascend Hardware\"}},",
    b"Name,Type,Start Time(us),Duration(us),Stream ID\n",
    b"{\"traceEvents\":[{\"args\":{\"call_stack\":[]},\"cat\":\"kernel\",\"ph\":\"X\"",
    b"",
    b"[{\"children\":[{\"children\":[],\"frame\":{\"name\":\"k\"},\"metrics\":{\"device_id\":\"0\",",
];

/// Checks one input.
pub fn check(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let beginning = BEGINNINGS[usize::from(*choice) % BEGINNINGS.len()];
    whole_way::report(&[beginning, rest]);
}

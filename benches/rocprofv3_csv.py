"""Writes large tables of rocprofv3 (CSV) for measurements. The rows are the same on every run.

usage: python3 rocprofv3_csv.py OUT [MEGABYTES]

Writes OUT_kernel_trace.csv and OUT_hip_api_trace.csv, together about that many megabytes (default 1000): kernels, each with the HIP
call that launched it. Columns are those of ROCm 6.4. No number in them was measured.
"""
import sys

START_NS = 1_704_161_511_420_000_000
MEGABYTE = 1_000_000
CHUNK = 10_000
NAMES = [f"void ck::kernel_gemm_xdl_cshuffle_v3<ck::Gemm_{i}>(ck::Argument)" for i in range(40)]
KERNELS = ["Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name", "Correlation_Id",
           "Start_Timestamp", "End_Timestamp", "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count",
           "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z", "Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z"]
CALLS = ["Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp"]


def header(columns):
    return ",".join(f'"{column}"' for column in columns) + "\n"


def rows(number):
    start, name = START_NS + number * 10_000, number % len(NAMES)
    kernel = (f'"KERNEL_DISPATCH","Agent {number % 8 + 2}",1,{number % 4},4711,{number},{name},"{NAMES[name]}",{number},{start},'
              f"{start + 6_000 + number % 997},0,0,128,0,96,256,1,1,262144,1,1\n")
    call = f'"HIP_RUNTIME_API","hipLaunchKernel",4711,4711,{number},{start - 8_000},{start - 5_000}\n'
    return kernel, call


def main(out, megabytes):
    written, number = 0, 0
    with open(f"{out}_kernel_trace.csv", "w") as kernels, open(f"{out}_hip_api_trace.csv", "w") as calls:
        kernels.write(header(KERNELS))
        calls.write(header(CALLS))
        while written < megabytes * MEGABYTE:
            pairs = [rows(row) for row in range(number, number + CHUNK)]
            number += CHUNK
            written += sum(file.write("".join(lines)) for file, lines in zip((kernels, calls), zip(*pairs)))
    print(f"{number:,} kernels and as many calls, {written / MEGABYTE:,.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 1000)

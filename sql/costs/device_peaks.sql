-- The peak rates of a device as its maker states them, dense (without structured sparsity), at the boost clock. A trace
-- names its devices; the first row whose pattern matches the name applies. Rows whose name ends with achievable have
-- rates that the maker measured; they apply only if they are named: device := 'MI300X achievable'. Each die of an MI250
-- is a separate device.
-- Shown: device!, matrix_fp16 / 1e12 AS matrix_fp16_tflop_s!#, memory_bandwidth / 1e12 AS memory_tb_s!#, link_bandwidth
--   / 1e9 AS link_gb_s!#, matrix_fp8 / 1e12 AS matrix_fp8_tflop_s#, matrix_fp32 / 1e12 AS matrix_fp32_tflop_s#,
--   vector_fp32 / 1e12 AS vector_fp32_tflop_s#, source
-- Columns:
--   device: name of the device
--   pattern: regular expression for the names that traces give it
--   memory_bandwidth: bytes per second of its memory
--   link_bandwidth: bytes per second that it can send to other devices of its machine by NVLink or Infinity Fabric; NULL if it has no such links
--   matrix_fp64: operations per second of tensor cores or matrix cores on 64-bit floats; NULL if they don't take them
--   matrix_fp32: the same on 32-bit floats, on NVIDIA's rounded to TF32; NULL if they don't take them
--   matrix_fp16: the same on 16-bit floats, float16 and bfloat16
--   matrix_fp8: the same on 8-bit floats; NULL if they don't take them
--   matrix_int8: the same on 8-bit integers
--   vector_fp64: operations per second without tensor or matrix cores on 64-bit floats
--   vector_fp32: the same on 32-bit floats
--   vector_fp16: the same on float16; the rate on 32-bit floats where not stated
--   vector_bf16: the same on bfloat16; the rate on 32-bit floats where not stated
--   source: where the rates are from
CREATE VIEW device_peaks AS
SELECT k.device, k.pattern, k.memory_bandwidth * 1e12 AS memory_bandwidth, k.link_bandwidth * 1e12 AS link_bandwidth,
    k.matrix[1] * 1e12 AS matrix_fp64, k.matrix[2] * 1e12 AS matrix_fp32, k.matrix[3] * 1e12 AS matrix_fp16,
    k.matrix[4] * 1e12 AS matrix_fp8, k.matrix[5] * 1e12 AS matrix_int8, k.vector[1] * 1e12 AS vector_fp64,
    k.vector[2] * 1e12 AS vector_fp32, coalesce(k.vector[3], k.vector[2]) * 1e12 AS vector_fp16,
    coalesce(k.vector[4], k.vector[2]) * 1e12 AS vector_bf16, k.source
FROM (
    VALUES
        (
            'NVIDIA GB200, one GPU', '\bGB200', 8.0, 0.9, [40, 1250, 2500, 5000, 5000], [40, 80, NULL, NULL],
            'NVIDIA GB200 NVL72 Datasheet, half of a superchip''s two GPUs'
        ),
        (
            'NVIDIA B200', '\bB200', 8.0, 0.9, [40, 1100, 2250, 4500, 4500], [40, 80, NULL, NULL],
            'NVIDIA Blackwell Architecture Technical Brief, HGX B200 at 1000 W'
        ),
        (
            'NVIDIA GH200 144GB', '\bGH200.*144', 4.9, 0.45, [67, 494, 990, 1979, 1979], [34, 67, 133.8, 133.8],
            'NVIDIA GH200 Grace Hopper Superchip Datasheet; H100 Whitepaper'
        ),
        (
            'NVIDIA GH200 96GB', '\bGH200', 4.0, 0.45, [67, 494, 990, 1979, 1979], [34, 67, 133.8, 133.8],
            'NVIDIA GH200 Grace Hopper Superchip Datasheet; H100 Whitepaper'
        ),
        (
            'NVIDIA H200 NVL', '\bH200 NVL', 4.8, 0.45, [60, 417.5, 835.5, 1670.5, 1670.5], [30, 60, NULL, NULL],
            'NVIDIA H200 Tensor Core GPU Datasheet'
        ),
        (
            'NVIDIA H200 SXM', '\bH200', 4.8, 0.45, [66.9, 494.7, 989.4, 1978.9, 1978.9], [33.5, 66.9, 133.8, 133.8],
            'NVIDIA H200 Tensor Core GPU Datasheet; H100 Architecture Whitepaper'
        ),
        (
            'NVIDIA H100 NVL', '\bH100 NVL', 3.938, 0.3, [60, 417.5, 835.5, 1670.5, 1670.5], [30, 60, NULL, NULL],
            'NVIDIA H100 NVL GPU Product Brief; H100 Datasheet'
        ),
        (
            'NVIDIA H100 PCIe', '\bH100 PCIe', 2.039, 0.3, [51.2, 378, 756, 1513, 1513], [25.6, 51.2, NULL, NULL],
            'NVIDIA H100 Datasheet'
        ),
        (
            'NVIDIA H100 SXM', '\bH100', 3.352, 0.45, [66.9, 494.7, 989.4, 1978.9, 1978.9], [33.5, 66.9, 133.8, 133.8],
            'NVIDIA H100 Tensor Core GPU Architecture Whitepaper'
        ),
        (
            'NVIDIA H20 141GB', '\bH20-3e', 4.8, 0.45, [1, 74, 148, 296, 296], [1, 44, NULL, NULL],
            'NVIDIA H20 GPU Datasheet'
        ),
        (
            'NVIDIA H20 96GB', '\bH20\b', 4.0, 0.45, [1, 74, 148, 296, 296], [1, 44, NULL, NULL],
            'NVIDIA H20 GPU Datasheet'
        ),
        (
            'NVIDIA A100 80GB PCIe', 'A100[ -]80GB PCI|A100-PCI\w*-80', 1.935, 0.3,
            [19.5, 156, 312, NULL, 624], [9.7, 19.5, 78, 39], 'NVIDIA A100 Tensor Core GPU Datasheet'
        ),
        (
            'NVIDIA A100 SXM 80GB', 'A100.*80GB', 2.039, 0.3, [19.5, 156, 312, NULL, 624], [9.7, 19.5, 78, 39],
            'NVIDIA A100 Tensor Core GPU Datasheet'
        ),
        (
            'NVIDIA A100 40GB', 'A100.*40GB|A100-PG509', 1.555, 0.3, [19.5, 156, 312, NULL, 624], [9.7, 19.5, 78, 39],
            'NVIDIA A100 Tensor Core GPU Architecture Whitepaper'
        ),
        (
            'NVIDIA A10', '\bA10\b', 0.6, NULL, [NULL, 62.5, 125, NULL, 250], [0.5, 31.2, 31.2, 31.2],
            'NVIDIA A10 Tensor Core GPU Datasheet'
        ),
        (
            'NVIDIA V100S PCIe', 'V100S', 1.134, NULL, [NULL, NULL, 130, NULL, NULL], [8.2, 16.4, 32.8, NULL],
            'NVIDIA V100 Tensor Core GPU Datasheet'
        ),
        (
            'NVIDIA V100 PCIe', 'V100-PCIE|V100 PCIe', 0.9, NULL, [NULL, NULL, 112, NULL, NULL], [7, 14, 28, NULL],
            'NVIDIA V100 Tensor Core GPU Datasheet'
        ),
        (
            'NVIDIA V100 SXM2', '\bV100', 0.9, 0.15, [NULL, NULL, 125, NULL, NULL], [7.8, 15.7, 31.4, NULL],
            'NVIDIA V100 Tensor Core GPU Datasheet'
        ),
        (
            'NVIDIA T4', '\bT4\b', 0.32, NULL, [NULL, NULL, 65, NULL, 130], [0.25, 8.1, 16.2, NULL],
            'NVIDIA Turing GPU Architecture Whitepaper'
        ),
        (
            'NVIDIA L40S', '\bL40S\b', 0.864, NULL, [NULL, 183, 362.05, 733, 733], [1.4, 91.6, 91.6, 91.6],
            'NVIDIA L40S GPU Datasheet'
        ),
        (
            'NVIDIA L4', '\bL4\b', 0.3, NULL, [NULL, 60, 121, 242, 242], [0.5, 30.3, 30.3, 30.3],
            'NVIDIA L4 Tensor Core GPU Datasheet'
        ),
        (
            'NVIDIA GeForce RTX 4090', 'RTX 4090$', 1.008, NULL, [NULL, 82.6, 165.2, 330.3, 660.6],
            [1.3, 82.6, 82.6, 82.6], 'NVIDIA Ada GPU Architecture Whitepaper; products accumulated in 32 bits'
        ),
        (
            'AMD Instinct MI355X', 'MI355X', 8.0, 0.5376,
            [78.6, 157.3, 2516.6, 5033.2, 5033.2], [78.6, 157.3, NULL, NULL], 'AMD Instinct MI355X GPU Datasheet'
        ),
        (
            'AMD Instinct MI350X', 'MI350X', 8.0, 0.5376,
            [72.1, 144.2, 2306.9, 4613.7, 4613.7], [72.1, 144.2, NULL, NULL], 'AMD Instinct MI350X GPU Datasheet'
        ),
        (
            'AMD Instinct MI325X, achievable', 'MI325X,? achievable', 6.0, 0.448, [NULL, NULL, 840.8, 1527.7, NULL],
            [81.7, 163.4, NULL, NULL],
            'Measuring Max-Achievable FLOPs, Part 2 (ROCm Blogs, 2025): products of bfloat16 and float8; else Datasheet'
        ),
        (
            'AMD Instinct MI300X, achievable', 'MI300X,? achievable', 5.325, 0.448, [NULL, NULL, 708, 1223.6, NULL],
            [81.7, 163.4, NULL, NULL],
            'Measuring Max-Achievable FLOPs, Part 2 (ROCm Blogs, 2025): products of bfloat16 and float8; else Datasheet'
        ),
        (
            'AMD Instinct MI325X', 'MI325X', 6.0, 0.448,
            [163.4, 163.4, 1307.4, 2614.9, 2614.9], [81.7, 163.4, NULL, NULL], 'AMD Instinct MI325X GPU Datasheet'
        ),
        (
            'AMD Instinct MI300X', 'MI300X', 5.325, 0.448, [163.4, 163.4, 1307.4, 2614.9, 2614.9],
            [81.7, 163.4, NULL, NULL], 'AMD Instinct MI300X Accelerator Datasheet'
        ),
        (
            'AMD Instinct MI300A', 'MI300A', 5.3, 0.384,
            [122.6, 122.6, 980.6, 1961.2, 1961.2], [61.3, 122.6, NULL, NULL], 'AMD Instinct MI300A APU Datasheet'
        ),
        (
            'AMD Instinct MI250X, one die', 'MI250X', 1.6384, 0.2, [47.9, 47.9, 191.5, NULL, 191.5],
            [23.9, 23.9, NULL, NULL], 'AMD Instinct MI250X Accelerator Datasheet, half of its two dies'
        ),
        (
            'AMD Instinct MI250, one die', 'MI250', 1.6384, 0.15, [45.3, 45.3, 181.1, NULL, 181.1],
            [22.6, 22.6, NULL, NULL], 'AMD Instinct MI250 Accelerator Datasheet, half of its two dies'
        ),
        (
            'AMD Instinct MI210', 'MI210', 1.6384, 0.15, [45.3, 45.3, 181, NULL, 181], [22.6, 22.6, NULL, NULL],
            'AMD Instinct MI210 Accelerator Datasheet'
        )
) AS k (device, pattern, memory_bandwidth, link_bandwidth, matrix, vector, source);

#include "cluster/cluster/internal/presets.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace tessera {
namespace {

// clang-format off
// Sources of the figures: Megatron-LM, SC 2021; public tables of dense rates and memory
// sizes; DLPerf; Llama 3 and torchtitan; public pages of H800 and Ascend 910; data sheets.
constexpr std::array kPresets{
    DevicePreset{"a100-80g", HardwareKind::kGpu, 80, 2039, 312, 19.5,
           300, "nvlink", 8, 25, 8, "public tables, f32 data sheet"},
    DevicePreset{"a100-40g", HardwareKind::kGpu, 40, 1555, 312, 19.5,
           300, "nvlink", 8, 25, 8, "public tables, f32 data sheet"},
    DevicePreset{"h100-sxm", HardwareKind::kGpu, 80, 3350, 989, 67,
           450, "nvlink", 8, 50, 8, "public tables, f32 data sheet"},
    DevicePreset{"h100-96g", HardwareKind::kGpu, 96, 2400, 989, 67,
           450, "nvlink", 8, 50, 8, "public tables, f32 data sheet"},
    DevicePreset{"h200", HardwareKind::kGpu, 141, 4800, 989, 67,
           450, "nvlink", 8, 50, 8, "public tables, f32 data sheet"},
    DevicePreset{"h800", HardwareKind::kGpu, 80, 3350, 989, 67,
           200, "nvlink", 8, 50, 8, "public tables, f32 data sheet"},
    DevicePreset{"gh200", HardwareKind::kGpu, 96, 4000, 989, 67,
           450, "nvlink", 4, 25, 4, "public tables, network and f32 data sheet"},
    DevicePreset{"b200", HardwareKind::kGpu, 192, 8000, 2250, 80,
           900, "nvlink", 8, 50, 8, "public tables, f32 data sheet"},
    DevicePreset{"gb200", HardwareKind::kGpu, 192, 8000, 2500, 80,
           900, "nvlink", 72, 50, 18, "public tables, network and f32 data sheet"},
    DevicePreset{"v100-16g", HardwareKind::kGpu, 16, 900, 125, 15.7,
           150, "nvlink", 8, 12.5, 1, "public tables, f32 data sheet"},
    DevicePreset{"v100-32g", HardwareKind::kGpu, 32, 900, 125, 15.7,
           150, "nvlink", 8, 12.5, 1, "public tables, f32 and network data sheet"},
    DevicePreset{"p100", HardwareKind::kGpu, 16, 732, 21.2, 10.6,
           12, "pcie", 4, 12.5, 1, "data sheet"},
    DevicePreset{"ascend910", HardwareKind::kNpu, 32, 1200, 256, 0,
           30, "hccs", 8, 12.5, 8, "public tables"},
    DevicePreset{"rtx3090", HardwareKind::kGpu, 24, 936, 71, 35.6,
           12, "pcie", 8, 12.5, 1, "data sheet"},
    DevicePreset{"rtx2080", HardwareKind::kGpu, 8, 448, 40, 10.1,
           12, "pcie", 8, 12.5, 1, "data sheet"},
    DevicePreset{"titan-rtx", HardwareKind::kGpu, 24, 672, 130, 16.3,
           12, "pcie", 8, 12.5, 1, "data sheet"},
    DevicePreset{"cpu", HardwareKind::kCpu, 2, 12, 0, 0.096,
           10, "memory", 8, 1.25, 1, "a core at 3 GHz: vectors of 8, one bank of DDR4, its caches"},
};
// clang-format on

struct Alias {
  std::string_view name, preset;
};
constexpr std::array kAliases{
    Alias{"a100", "a100-80g"},      Alias{"a100-80gb", "a100-80g"},
    Alias{"a100-sxm", "a100-80g"},  Alias{"a100-40gb", "a100-40g"},
    Alias{"h100", "h100-sxm"},      Alias{"h100-80g", "h100-sxm"},
    Alias{"v100", "v100-16g"},      Alias{"v100-16gb", "v100-16g"},
    Alias{"v100-32gb", "v100-32g"}, Alias{"h200-sxm", "h200"},
    Alias{"p100-16g", "p100"},      Alias{"ascend-910", "ascend910"},
};

// Large kernels reach these parts of the rates of data sheets: brute-force searches over sizes of
// products find 0.87 on A100, 0.80 on H100 and 0.78 on B200.
constexpr double kMatmulPart = 0.8, kMemoryPart = 0.85;

/// Of kMatmulPart, what products inside of transformer layers keep: the profiles that Sailor
/// measured (SOSP 2025) have 0.60 of the data sheet on GH200 for products of 0.5 Tflop and more,
/// 0.71 on V100, 0.80 on A100. Other Hopper devices have the same cores.
struct Sustained {
  std::string_view name;
  double part;
};
constexpr std::array kSustained{Sustained{"gh200", 0.75},    Sustained{"h100-sxm", 0.75},
                                Sustained{"h100-96g", 0.75}, Sustained{"h200", 0.75},
                                Sustained{"h800", 0.75},     Sustained{"v100-16g", 0.9},
                                Sustained{"v100-32g", 0.9}};

/// Before Ampere, NVIDIA's devices compute no bf16: what is in it takes the rates of f32.
constexpr std::array<std::string_view, 5> kWithoutBf16{"v100-16g", "v100-32g", "p100", "rtx2080",
                                                       "titan-rtx"};

std::vector<DType> half_types_of(const DevicePreset& preset) {
  if (std::ranges::count(kWithoutBf16, preset.name) > 0) return {DType::kF16};
  return {DType::kBF16, DType::kF16};
}

/// NVLink 2 of a machine with eight V100: each link has 25 GB/s in one direction.
constexpr std::array<std::array<int, 3>, 16> kHybridCube{{{0, 1, 1},
                                                          {0, 2, 1},
                                                          {0, 3, 2},
                                                          {0, 4, 2},
                                                          {1, 2, 2},
                                                          {1, 3, 1},
                                                          {1, 5, 2},
                                                          {2, 3, 2},
                                                          {2, 6, 1},
                                                          {3, 7, 1},
                                                          {4, 5, 1},
                                                          {4, 6, 1},
                                                          {4, 7, 2},
                                                          {5, 6, 2},
                                                          {5, 7, 1},
                                                          {6, 7, 2}}};

bool has_hybrid_cube(const DevicePreset& preset) {
  return preset.name == "v100-16g" || preset.name == "v100-32g";
}

/// Of a core: 16 multiplications and additions a cycle in products, as many cycles for an
/// exponential as for 32 of them, and memory that is faster the closer it is.
DeviceCost cost_of_core(const DevicePreset& preset) {
  const double peak = preset.f32_tflops * 1e12;
  DeviceCost cost;
  cost.flops_per_second = peak / 4;
  cost.bytes_per_second = preset.memory_gb_per_second * 1e9;
  cost.copied_bytes_per_second = cost.bytes_per_second;
  cost.launch = Seconds(2e-7);
  // Small pieces pay for the edges of their tiles; those of a convolution are packed before.
  const std::pair<OperationClass, SizeCurve> products[] = {
      {OperationClass::kMatmul, {{{1e3, 0.02}, {64e3, 0.7}, {1e6, 1.0}}}},
      {OperationClass::kConvolution, {{{1e3, 0.3}, {16e3, 1.0}}}},
      {OperationClass::kAttention, {{{2e3, 0.1}, {64e3, 0.7}, {512e3, 1.0}}}}};
  for (const auto& [operation, efficiency] : products)
    cost.classes[operation] = {.flops_per_second = peak * kMatmulPart, .efficiency = efficiency};
  const SizeCurve caches{{{256e3, 60e9}, {1e6, 40e9}, {16e6, 20e9}, {64e6, cost.bytes_per_second}}};
  for (OperationClass operation : {OperationClass::kElementwise, OperationClass::kReduction,
                                   OperationClass::kGather, OperationClass::kMovement})
    cost.classes[operation].bytes_per_second_at = caches;
  return cost;
}

}  // namespace

std::span<const DevicePreset> presets() {
  return kPresets;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const DevicePreset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

const DevicePreset* find_preset(std::string_view called) {
  std::string lower(called);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view name = lower;
  for (const Alias& alias : kAliases)
    if (alias.name == name) name = alias.preset;
  for (const DevicePreset& preset : kPresets)
    if (preset.name == name) return &preset;
  // "h100-80gb" is "h100-80g".
  return lower.ends_with("gb") ? find_preset(lower.substr(0, lower.size() - 1)) : nullptr;
}

std::string nearest_preset(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  // "8h100" lacks the x after the count.
  name.remove_prefix(std::min(name.find_first_not_of(kDigits), name.size()));
  const auto model = [&](std::string_view device) {
    const size_t first = std::min(device.find_first_of(kDigits), device.size());
    return device.substr(first, device.find_first_not_of(kDigits, first) - first);
  };
  std::vector<std::string> choices;
  for (const std::string& known : preset_names())
    if (model(known) == model(name)) choices.push_back(known);
  return nearest(name, choices);
}

DeviceType device_of(const DevicePreset& preset) {
  DeviceType type{std::string(preset.name),
                  preset.kind,
                  Bytes(static_cast<int64_t>(preset.memory_gb * 1e9)),
                  Bytes(0),
                  {},
                  std::string(preset.source),
                  {}};
  if (preset.kind == HardwareKind::kCpu) {
    type.cost = cost_of_core(preset);
    return type;
  }
  if (preset.f32_tflops > 0) type.peaks[DType::kF32] = preset.f32_tflops * 1e12;
  for (DType dtype : half_types_of(preset)) type.peaks[dtype] = preset.bf16_tflops * 1e12;
  type.reserve = Bytes(1'000'000'000);
  for (const Sustained& each : kSustained)
    if (each.name == preset.name) type.sustained = each.part;
  DeviceCost& cost = type.cost;
  const double memory = preset.memory_gb_per_second * 1e9 * kMemoryPart;
  const double f32 = (preset.f32_tflops > 0 ? preset.f32_tflops : preset.bf16_tflops / 2) * 1e12;
  cost.flops_per_second = f32;
  cost.bytes_per_second = memory;
  cost.copied_bytes_per_second = memory / 2;
  cost.launch = Seconds(4e-6);
  for (OperationClass operation :
       {OperationClass::kMatmul, OperationClass::kConvolution, OperationClass::kAttention}) {
    ClassRates& rates = cost.classes[operation];
    rates.flops_per_second = f32 * kMatmulPart;
    for (DType dtype : half_types_of(preset))
      rates.flops_per_second_of[dtype] = preset.bf16_tflops * 1e12 * kMatmulPart;
  }
  return type;
}

MachineGroup machine_of(const DevicePreset& preset, int devices) {
  MachineGroup machine{{}, std::string(preset.name), devices, 0, {}, {}};
  LinkLevel level{std::string(preset.link), {Seconds(2e-6), preset.link_gb_per_second * 1e9}};
  if (preset.kind == HardwareKind::kCpu) {
    level.link.latency = Seconds(1e-6);
    machine.cores = devices;
  }
  if (has_hybrid_cube(preset) && devices <= 8) {
    level.name = "pcie";
    level.link = {Seconds(10e-6), 12e9};
    for (const auto& [a, b, links] : kHybridCube)
      if (b < devices) machine.direct.push_back({a, b, {Seconds(2e-6), links * 25e9}});
  }
  machine.levels.push_back({level, 0});
  return machine;
}

LinkLevel network_of(const DevicePreset& preset) {
  return {"network",
          {Seconds(5e-6), preset.network_gb_per_second * 1e9},
          LinkSharing::kSwitch,
          preset.ports};
}

}  // namespace tessera

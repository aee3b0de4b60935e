#include "tools/cli/internal/print/runtime_text.h"

#include <fmt/format.h>

#include <vector>

#include "base/text/text.h"
#include "simulator/step/step_text.h"

namespace tessera {

void add_runtime(const RuntimeProfile& runtime, Seconds step, Document& document) {
  document["runtime"] = runtime.name;
  if (runtime.high == 0) return;
  document["interval_ms"].append(1e3 * runtime.low * step.value());
  document["interval_ms"].append(1e3 * runtime.high * step.value());
}

std::string runtime_text(const RuntimeProfile& runtime, Seconds step) {
  if (runtime.fusion == Fusion::kNone) return "";
  std::string text = fmt::format("runtime     {}: {}\n", runtime.name, runtime.source);
  if (runtime.high > 0)
    text += fmt::format("interval    8 of 10 measured steps take {} to {}\n",
                        step_text(Seconds(runtime.low * step.value())),
                        step_text(Seconds(runtime.high * step.value())));
  return text;
}

std::string emulated_note(const Cluster& cluster, DType products) {
  if (products != DType::kBF16 && products != DType::kF16) return "";
  std::vector<std::string> names;
  for (const DeviceType& type : cluster.description().types) {
    const ClassRates* rates = type.cost.rates_of(OperationClass::kMatmul);
    if (type.kind == HardwareKind::kGpu && rates && rates->flops_per_second &&
        !rates->flops_per_second_of.empty() && !rates->flops_per_second_of.contains(products))
      names.push_back(type.name);
  }
  if (names.empty()) return "";
  return fmt::format("{} {} no arithmetic in {}: it is priced at the rate of f32",
                     join(names, " and "), names.size() == 1 ? "has" : "have", to_text(products));
}

}  // namespace tessera

#include "tools/cli/internal/print/runtime_text.h"

#include <fmt/format.h>

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

}  // namespace tessera

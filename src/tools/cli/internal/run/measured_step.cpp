#include "tools/cli/internal/run/measured_step.h"

#include <algorithm>
#include <vector>

#include "training/engine/engine.h"

namespace tessera {

Seconds measure_step(const RunConfig& config, const Plan& plan,
                     const std::shared_ptr<const RunData>& data, int64_t steps) {
  Engine engine(config, plan, data);
  constexpr int64_t kMinSteps = 12, kMaxSteps = 300;
  std::vector<Seconds> times;
  Seconds sum{0};
  const auto is_done = [&] {
    const int64_t done = std::ssize(times);
    if (steps > 0) return done == steps;
    return done == kMaxSteps || (done >= kMinSteps && sum > Seconds(0.5));
  };
  while (!is_done()) {
    times.push_back(engine.step().time);
    sum += times.back();
  }
  return *std::ranges::min_element(times);
}

}  // namespace tessera

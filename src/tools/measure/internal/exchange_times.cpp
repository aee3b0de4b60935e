#include "tools/measure/internal/exchange_times.h"

#include <algorithm>
#include <memory>

#include "ir/ops/builder.h"
#include "tools/measure/internal/step_programs.h"

namespace tessera {
namespace {

double min_step_of(const TaskGraph& tasks, int64_t elements, std::vector<Rank> ranks = {0, 1}) {
  Runtime runtime(std::move(ranks));
  return min_step(runtime, tasks, elements, elements > 1 << 16 ? 20 : 200);
}

/// A chain of n kernels of a few elements, on one rank.
TaskGraph chain(int kernels) {
  Graph graph;
  Builder builder(graph);
  ValueId value = builder.input("x", {DType::kF32, {16}});
  for (int i = 0; i < kernels; ++i)
    value = builder.mul_scalar(value, 1.5, "scaled." + std::to_string(i));
  graph.add_output("y", value);
  const auto mesh = std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"r"});
  return compile(graph, mesh, {}).tasks;
}

}  // namespace

Seconds dispatch_time() {
  constexpr int kFew = 100, kMany = 1100;
  const double more = min_step_of(chain(kMany), 16, {0}) - min_step_of(chain(kFew), 16, {0});
  return Seconds(std::max(0.0, more / (kMany - kFew) - scaling_time(16).value()));
}

std::vector<MeasuredTime> measure_exchanges() {
  std::vector<MeasuredTime> times;
  for (int64_t elements = 1 << 8; elements <= 1 << 21; elements *= 8) {
    const GatherChain chain{elements};
    const double step = min_step_of(gather_chain(chain), elements);
    // The feed and the fetch copy the tensor, too.
    const double kernels =
        chain.exchanges * kernels_of_exchange(chain).value() + 2 * scaling_time(elements).value();
    const Seconds exchange(std::max(step - kernels, 0.1 * step) / chain.exchanges);
    times.push_back({Bytes(elements / 2 * 4), exchange});
  }
  return times;
}

}  // namespace tessera

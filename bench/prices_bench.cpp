// The prices of kernels beside their times: every kernel call of a training step of a
// configuration, alone on one core, on warm memory.
//
//     prices_bench CONFIG.toml [CLUSTER]
//
// Columns: calls of a step, their measured time, what the roofline says with the rates of the
// cluster (default: those measured now), and the rates that the calls reach.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "kernels/bind.h"
#include "tools/measure/kernel_times.h"
#include "training/config/config.h"
#include "training/engine/graphs.h"
#include "training/engine/run_data.h"

namespace tessera {
namespace {

struct Row {
  int64_t calls = 0;
  double time = 0, price = 0, flops = 0, bytes = 0;
};

int run(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("prices_bench CONFIG.toml [CLUSTER]\n");
    return 2;
  }
  use_one_thread_for_kernels();
  RunConfig config = read_config_file(argv[1]).run;
  set_sizes(config.model, config.data);
  const DeviceCost cost = argc > 2 ? cluster_of(argv[2]).type(0).cost : rates_of(measure_kernels());
  const Compiled compiled = compile(training_graph(config), serial_plan());
  std::map<std::string, Row> rows;
  Row all;
  for (const Task& task : compiled.tasks.tasks)
    for (const KernelStep& step : task.steps) {
      if (step.control || step.outputs.empty()) continue;
      const auto types = [&](const std::vector<RegisterIndex>& list) {
        std::vector<TensorType> result;
        for (RegisterIndex index : list) {
          const Register& reg = compiled.tasks.registers[index];
          result.push_back(local_type(reg, reg.attr.mesh->coordinate_at(0)));
        }
        return result;
      };
      const Mesh& mesh = *compiled.tasks.registers[step.outputs.front()].attr.mesh;
      const LocalCall call =
          localize(step.call, mesh.coordinate_at(0), types(step.inputs), types(step.outputs));
      const LocalWork work = work_of(call);
      const double time = time_of(call).value();
      for (Row* row : {&rows[std::string(to_text(work.operation)) + " " + call.kernel], &all}) {
        ++row->calls;
        row->time += time;
        row->price += compute_price(work, cost).estimate.value();
        row->flops += work.flops.value();
        row->bytes += static_cast<double>(work.bytes().value());
      }
    }
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::ranges::sort(sorted,
                    [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
  sorted.emplace_back("all", all);
  fmt::print("{:<40} {:>6} {:>10} {:>10} {:>7} {:>9} {:>9}\n", "kernel", "calls", "measured",
             "price", "ratio", "Gflop/s", "GB/s");
  for (const auto& [name, row] : sorted)
    fmt::print("{:<40} {:>6} {:>8.3f}ms {:>8.3f}ms {:>7.2f} {:>9.2f} {:>9.2f}\n", name, row.calls,
               1e3 * row.time, 1e3 * row.price, row.price / row.time, 1e-9 * row.flops / row.time,
               1e-9 * row.bytes / row.time);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::run(argc, argv);
}

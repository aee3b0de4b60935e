#include "lower/lower.h"

#include <chrono>

#include "lower/partition.h"

namespace tessera {

Compiled compile(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks, const CompileOptions& options) {
  Compiled result;
  Program program;
  const auto stage = [&](std::string_view name, const auto& work, const auto& text) {
    const auto start = std::chrono::steady_clock::now();
    work();
    result.stages.push_back({name, Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count())});
    if (options.dump) options.dump(name, text());
  };

  stage("serial", [&] { verify(graph); }, [&] { return to_text(graph); });
  stage("propagate", [&] { result.sharded = propagate(graph, mesh, marks, options.rules); }, [&] { return print_placements(graph, result.sharded); });
  stage("partition", [&] { program = partition(graph, result.sharded); }, [&] { return to_text(program); });
  stage("in-place", [&] { update_variables_in_place(program); }, [&] { return to_text(program); });
  stage("arena", [&] { result.arena = plan_arena(program); },
        [&] { return "arena " + to_text(result.arena.size) + ", alive at most " + to_text(result.arena.live_bound) + "\n"; });
  stage("tasks", [&] { result.tasks = make_tasks(std::move(program), result.arena.size); }, [&] { return to_text(result.tasks); });
  stage("check", [&] { check(result.tasks); }, [&] { return std::string("every promise of the task graph holds\n"); });
  return result;
}

}  // namespace tessera

#include "lower/lower.h"

#include <chrono>

#include "lower/partition.h"

namespace tessera {
namespace {

std::string arena_text(const std::vector<ArenaPlan>& arenas, const Meshes& meshes) {
  std::string text;
  for (size_t i = 0; i < arenas.size(); ++i)
    text += "arena" + (arenas.size() > 1 ? " of " + meshes[i].name : "") + " " + to_text(arenas[i].size) + ", alive at most " + to_text(arenas[i].live_bound) + "\n";
  return text;
}

}  // namespace

Compiled compile(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks, const CompileOptions& options) {
  Compiled result;
  Program program;
  const auto stage = [&](std::string_view name, const auto& work, const auto& text) {
    const auto start = std::chrono::steady_clock::now();
    work();
    result.stages.push_back({name, Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count())});
    if (options.dump) options.dump(name, text());
  };

  stage("serial", [&] { verify(graph); }, [&] { return to_text(graph); });
  stage("propagate", [&] { result.sharded = propagate(graph, meshes, marks, options.rules); }, [&] { return print_placements(graph, result.sharded); });
  stage("partition", [&] { program = partition(graph, result.sharded); }, [&] { return to_text(program); });
  stage("in-place", [&] { update_variables_in_place(program); }, [&] { return to_text(program); });
  stage("arena", [&] { result.arenas = plan_arenas(program); }, [&] { return arena_text(result.arenas, meshes); });
  stage("tasks", [&] { result.tasks = make_tasks(std::move(program), result.arenas); }, [&] { return to_text(result.tasks); });
  stage("check", [&] { check(result.tasks); }, [&] { return std::string("every promise of the task graph holds\n"); });
  return result;
}

Compiled compile(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks, const CompileOptions& options) {
  return compile(graph, one_mesh(std::move(mesh)), marks, options);
}

}  // namespace tessera

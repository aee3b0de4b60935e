#include "engine/shared_variables.h"

#include <algorithm>

#include "base/name_pattern.h"
#include "base/text.h"
#include "shard/named.h"

namespace tessera {

std::vector<Mark> marks_for(const Graph& graph, const std::vector<Mark>& marks) {
  std::vector<Mark> present;
  for (const Mark& mark : marks) {
    const bool is_tensor = mark.kind == Mark::Kind::kTensor;
    if (is_tensor ? !values_named(graph, mark.pattern).empty()
                  : !ops_named(graph, mark.pattern).empty())
      present.push_back(mark);
  }
  return present;
}

Mark keep_at(const std::string& name, const DistAttr& attr, const std::string& mesh) {
  std::vector<std::string> spec;
  for (const DimSharding& dim : attr.dims) {
    std::vector<std::string> axes;
    for (int axis : dim.axes) axes.push_back("\"" + attr.mesh->axes()[axis] + "\"");
    spec.push_back(axes.empty()       ? "None"
                   : axes.size() == 1 ? axes.front()
                                      : "(" + join(axes, ",") + ")");
  }
  Mark mark = shard_tensor(name, "P(" + join(spec, ", ") + ")", "the training program");
  mark.mesh = mesh;
  return mark;
}

const std::string& home_of(const ShardedGraph& sharded, ValueId value) {
  return sharded.meshes[sharded.stages.values[value.index]].name;
}

std::vector<Mark> with_variables_of(const Compiled& compiled, const Graph& graph,
                                    std::vector<Mark> marks) {
  std::erase_if(marks, [&](const Mark& mark) {
    const NamePattern pattern(mark.pattern);
    return mark.kind == Mark::Kind::kTensor &&
           std::any_of(graph.variables().begin(), graph.variables().end(),
                       [&](const Variable& variable) {
                         return pattern.matches(graph.value(variable.value).name);
                       });
  });
  for (const Variable& variable : graph.variables()) {
    const std::string& name = graph.value(variable.value).name;
    if (const auto value = compiled.graph.find_value(name))
      marks.push_back(
          keep_at(name, compiled.sharded.of(*value), home_of(compiled.sharded, *value)));
  }
  return marks;
}

}  // namespace tessera

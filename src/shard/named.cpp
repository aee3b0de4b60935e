#include "shard/named.h"

#include <optional>

#include "base/error.h"
#include "base/name_pattern.h"
#include "shard/module_marks.h"

namespace tessera {
namespace {

bool is_one_name(const std::string& pattern) {
  return pattern.find_first_of("*{") == std::string::npos;
}

/// The indices of those of `things` whose names match.
template <class Id, class Thing>
std::vector<Id> matching(const std::vector<Thing>& things, const std::string& pattern) {
  const NamePattern compared(pattern);
  std::vector<Id> found;
  for (int i = 0; i < std::ssize(things); ++i)
    if (compared.matches(things[i].name)) found.push_back({i});
  return found;
}

template <class Id>
std::vector<Id> list_of(const std::optional<Id>& id) {
  return id ? std::vector<Id>{*id} : std::vector<Id>();
}

}  // namespace

std::vector<ValueId> values_named(const Graph& graph, const std::string& pattern) {
  return is_one_name(pattern) ? list_of(graph.find_value(pattern))
                              : matching<ValueId>(graph.values(), pattern);
}

std::vector<OpId> ops_named(const Graph& graph, const std::string& pattern) {
  return is_one_name(pattern) ? list_of(graph.find_op(pattern))
                              : matching<OpId>(graph.ops(), pattern);
}

std::vector<OpId> ops_named_by(const Graph& graph, const Mark& mark) {
  switch (mark.kind) {
    case Mark::Kind::kTensor: return {};
    case Mark::Kind::kOp: return ops_named(graph, mark.pattern);
    case Mark::Kind::kModule: return ops_in_modules(graph, mark.pattern);
  }
  throw InternalError("unknown kind of mark");
}

}  // namespace tessera

// The list of all operators.
#include <algorithm>

#include "base/error.h"
#include "ops/families.h"

namespace tessera {
namespace {

std::vector<const Operator*> list_operators() {
  std::vector<const Operator*> list;
  for (std::span<const Operator> family : {unary_operators(), binary_operators(), choice_operators(), source_operators(), dot_operators(),
                                           movement_operators(), reduce_operators(), gather_operators(), attention_operators()})
    for (const Operator& op : family) list.push_back(&op);
  return list;
}

[[noreturn]] void refuse_name(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Operator* op : all_operators()) names.push_back(op->name);
  const std::string near = nearest(name, names);
  throw UserError("'" + std::string(name) + "' is not an operator",
                  "the catalogue has " + std::to_string(names.size()) + " operators, none of this name",
                  near.empty() ? "see docs/operators for their names" : "did you mean '" + near + "'?", ExitCode::kBadData);
}

}  // namespace

std::span<const Operator* const> all_operators() {
  static const std::vector<const Operator*> list = list_operators();
  return list;
}

const Operator& find_operator(std::string_view name) {
  for (const Operator* op : all_operators())
    if (op->name == name) return *op;
  refuse_name(name);
}

}  // namespace tessera

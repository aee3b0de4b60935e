#include "ir/ops/operator_set.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

bool is_legal_kind(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
    return std::isalnum(letter) || letter == '_' || letter == '.' || letter == '-';
  });
}

bool is_built_in(std::string_view name) {
  const auto all = all_operators();
  return std::any_of(all.begin(), all.end(),
                     [name](const Operator* op) { return op->name == name; });
}

std::vector<std::string> missing_members(const Operator& op) {
  std::vector<std::string> missing;
  if (!op.infer) missing.push_back("infer");
  if (!op.work) missing.push_back("work");
  if (!op.kernel) missing.push_back("kernel");
  if (!op.reference) missing.push_back("reference");
  if (!op.tolerance) missing.push_back("tolerance");
  return missing;
}

void check_operator(const Operator& op) {
  const std::string quoted = "operator '" + std::string(op.name) + "'";
  if (!is_legal_kind(op.name))
    refuse_data(quoted + " has a name that is not legal in the text of a graph",
                "names of operators are letters, digits, '_', '.' and '-'", "rename it");
  if (is_built_in(op.name))
    refuse_data(quoted + " is built in", "a kind of op must mean the same in every program",
                "give yours another name, such as 'my." + std::string(op.name) + "'");
  if (const std::vector<std::string> missing = missing_members(op); !missing.empty())
    refuse_data(
        quoted + " lacks " + join(missing, ", "),
        "only rule (it is discovered by execution) and gradient (none flows) may be left out",
        "set them in its Operator");
}

}  // namespace

OperatorSet::OperatorSet(std::vector<Operator> operators, std::vector<NamedKernel> kernels)
    : kernels_(std::make_shared<const KernelSet>(std::move(kernels))) {
  for (const Operator& op : operators) {
    check_operator(op);
    if (find(op.name))
      refuse_data("operator '" + std::string(op.name) + "' occurs twice",
                  "ops find their operator by name", "rename or remove one of them");
    operators_.push_back(op);
  }
}

const Operator* OperatorSet::find(std::string_view name) const {
  const auto found = std::find_if(operators_.begin(), operators_.end(),
                                  [name](const Operator& op) { return op.name == name; });
  return found == operators_.end() ? nullptr : &*found;
}

std::shared_ptr<const KernelSet> own_kernels(const Graph& graph) {
  return graph.operators() ? graph.operators()->kernels() : nullptr;
}

}  // namespace tessera

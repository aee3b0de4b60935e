#include "kernels/bind.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "kernels/cpu/catalogue.h"
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/narrow.h"
#include "kernels/element_types.h"
#include "kernels/kernel_set.h"

namespace tessera {
namespace {

using EntryTable = std::unordered_map<std::string_view, const CatalogueEntry*>;

EntryTable entries_by_name() {
  EntryTable table;
  for (const CatalogueEntry& entry : cpu_catalogue()) table.emplace(entry.name, &entry);
  return table;
}

/// A user's operator calls a kernel that does not exist.
[[noreturn]] void refuse_kernel(std::string_view kernel, const KernelSet& own) {
  std::vector<std::string> names;
  for (const NamedKernel& known : own.kernels()) names.push_back(known.name);
  const std::string list = names.empty() ? "none" : join(names, ", ");
  for (const std::string& known : kernel_names()) names.push_back(known);
  const std::string close = nearest(kernel, names), text(kernel);
  throw UserError("no kernel is called '" + text + "'",
                  "an operator of the program calls it; the kernels of the program are: " + list,
                  close.empty() ? "add NamedKernel{\"" + text + "\", ...} to its OperatorSet"
                                : "did you mean '" + close + "'?",
                  ExitCode::kBadData);
}

/// `own` are the kernels of the program, where it has any: then the name may be the user's mistake.
const CatalogueEntry& find_entry(std::string_view kernel, const KernelSet* own) {
  static const EntryTable table = entries_by_name();
  if (const auto found = table.find(kernel); found != table.end()) return *found->second;
  if (own) refuse_kernel(kernel, *own);
  throw InternalError("no kernel is called '" + std::string(kernel) + "'; the nearest is '" +
                      nearest(kernel, kernel_names()) + "'");
}

const NamedKernel* find_own(const KernelSet* own, std::string_view kernel) {
  return own ? own->find(kernel) : nullptr;
}

void refuse_types_without_kernels(const LocalCall& call) {
  for (const auto* types : {&call.inputs, &call.outputs})
    for (const TensorType& type : *types)
      if (!may_be_operand(type.dtype))
        throw UserError(
            "kernel '" + call.kernel + "': an operand is " + to_text(type),
            "built-in kernels compute with f32, f16, bf16, i32 and bool; tensors of other "
            "element types are stored and moved only",
            "use one of these types, or bring a kernel of your own", ExitCode::kBadData);
}

LocalWork default_work(const LocalCall& call) {
  double elements = 0;
  for (const TensorType& type : call.outputs) elements += elements_of(type);
  return work_over_operands(call, OperationClass::kElementwise, elements);
}

}  // namespace

std::string accumulating_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "binary.add";
    case ReduceOp::kMax: return "binary.max";
    case ReduceOp::kMin: return "binary.min";
    case ReduceOp::kProd: return "binary.mul";
    case ReduceOp::kAny: return "binary.or";
    case ReduceOp::kAll: return "binary.and";
  }
  throw InternalError("unknown reduction");
}

BoundKernel bind_kernel(const LocalCall& call, const KernelSet* own) {
  if (const NamedKernel* kernel = find_own(own, call.kernel)) return kernel->bind(call);
  const CatalogueEntry& entry = find_entry(call.kernel, own);
  refuse_types_without_kernels(call);
  return has_narrow_operands(call) ? bind_narrow(entry, call) : entry.bind(call);
}

LocalWork work_of(const LocalCall& call, const KernelSet* own) {
  const NamedKernel* kernel = find_own(own, call.kernel);
  if (!kernel) {
    const CatalogueEntry& entry = find_entry(call.kernel, own);
    LocalWork work = has_narrow_operands(call) ? work_of_narrow(entry, call) : entry.work(call);
    if (work.kernel.empty()) work.kernel = entry.name;
    return work;
  }
  return kernel->work ? kernel->work(call) : default_work(call);
}

Bytes workspace_of(const LocalCall& call, const KernelSet* own) {
  if (const NamedKernel* kernel = find_own(own, call.kernel))
    return kernel->workspace ? kernel->workspace(call) : kernel->bind(call).workspace;
  const CatalogueEntry& entry = find_entry(call.kernel, own);
  refuse_types_without_kernels(call);
  if (has_narrow_operands(call)) return workspace_of_narrow(entry, call);
  return entry.workspace ? entry.workspace(call) : Bytes(0);
}

bool runs_in_place(std::string_view kernel, const KernelSet* own) {
  if (const NamedKernel* found = find_own(own, kernel)) return found->in_place;
  return find_entry(kernel, own).in_place == InPlace::kAnyInput;
}

bool may_write_over(std::string_view kernel, std::span<const int> inputs, int input,
                    const KernelSet* own) {
  const auto uses = std::count(inputs.begin(), inputs.end(), input);
  if (uses == 0) return false;
  if (runs_in_place(kernel, own)) return true;
  const bool first_only =
      !find_own(own, kernel) && find_entry(kernel, own).in_place == InPlace::kFirstInput;
  return first_only && inputs.front() == input && uses == 1;
}

void use_one_thread_for_kernels() {
  use_one_thread_for_gemm();
}

}  // namespace tessera

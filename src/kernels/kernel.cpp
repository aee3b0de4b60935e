#include "kernels/kernel.h"

#include <algorithm>

#include "kernels/cpu/catalogue.h"
#include "kernels/cpu/gemm.h"

namespace tessera {
namespace {

const CatalogueEntry& find_entry(std::string_view kernel) {
  for (const CatalogueEntry& entry : cpu_catalogue())
    if (entry.name == kernel) return entry;
  throw InternalError("no kernel is called '" + std::string(kernel) + "'; the nearest is '" + nearest(kernel, kernel_names()) + "'");
}

}  // namespace

LocalCall localize(const KernelCall& call, const Coordinate& coordinate, std::vector<TensorType> inputs, std::vector<TensorType> outputs) {
  LocalCall local{call.kernel, {}, call.reals, call.text, std::move(inputs), std::move(outputs)};
  for (const LocalInt& value : call.ints) local.ints.push_back(value.at(coordinate));
  return local;
}

BoundKernel bind_kernel(const LocalCall& call) {
  return find_entry(call.kernel).bind(call);
}

bool runs_in_place(std::string_view kernel) {
  return find_entry(kernel).in_place;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : cpu_catalogue()) names.emplace_back(entry.name);
  std::sort(names.begin(), names.end());
  return names;
}

void use_one_thread_for_kernels() {
  use_one_thread_for_gemm();
}

}  // namespace tessera

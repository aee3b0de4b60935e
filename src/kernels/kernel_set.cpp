#include "kernels/kernel_set.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/catalogue.h"

namespace tessera {
KernelSet::KernelSet(std::vector<NamedKernel> kernels) {
  const std::vector<std::string> built_in = kernel_names();
  for (NamedKernel& kernel : kernels) {
    const std::string quoted = "kernel '" + kernel.name + "'";
    if (kernel.name.empty())
      refuse_data("a kernel of the program has no name", "calls find kernels by name",
                  "set NamedKernel::name");
    if (!kernel.bind)
      refuse_data(quoted + " has no binder", "the binder makes what runs", "set NamedKernel::bind");
    if (std::binary_search(built_in.begin(), built_in.end(), kernel.name))
      refuse_data(quoted + " is built in", "a call must mean the same in every program",
                  "give yours another name, such as 'my." + kernel.name + "'");
    if (find(kernel.name))
      refuse_data(quoted + " occurs twice", "calls find kernels by name",
                  "rename or remove one of them");
    kernels_.push_back(std::move(kernel));
  }
}

const NamedKernel* KernelSet::find(std::string_view name) const {
  const auto found =
      std::find_if(kernels_.begin(), kernels_.end(),
                   [name](const NamedKernel& kernel) { return kernel.name == name; });
  return found == kernels_.end() ? nullptr : &*found;
}

}  // namespace tessera

#include "kernels/kernel.h"

#include <utility>

namespace tessera {

LocalCall localize(const KernelCall& call, const Coordinate& coordinate,
                   std::vector<TensorType> inputs, std::vector<TensorType> outputs) {
  LocalCall local{call.kernel, {}, call.reals, call.text, std::move(inputs), std::move(outputs)};
  for (const LocalInt& value : call.ints) local.ints.push_back(value.at(coordinate));
  return local;
}

}  // namespace tessera

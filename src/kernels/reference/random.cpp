// random_uniform
#include "base/random.h"

#include "kernels/reference/reference.h"

namespace tessera::reference {

Run random(const LocalCall& call) {
  if (call.kernel != "random_uniform") return nullptr;
  return [call](const KernelBuffers& buffers) {
    const TensorType& out = call.outputs[0];
    const auto rank = static_cast<size_t>(out.shape.size());
    const Dims whole(std::span<const int64_t>(call.ints).subspan(1 + rank));
    const RandomStream stream(static_cast<uint64_t>(call.ints[0]), static_cast<uint64_t>(read(call.inputs[0], buffers.inputs[0], 0)));
    for (int64_t i = 0; i < element_count(out.shape); ++i) {
      Dims position = position_of(out.shape, i);
      for (int dim = 0; dim < position.size(); ++dim) position[dim] += call.ints[1 + static_cast<size_t>(dim)];
      write(out, buffers.outputs[0], i, stream.uniform(static_cast<uint64_t>(flat_index(whole, position))));
    }
  };
}

}  // namespace tessera::reference

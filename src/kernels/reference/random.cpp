// random_uniform
#include "base/random.h"

#include "kernels/reference/reference.h"

namespace tessera::reference {

Run random(const LocalCall& call) {
  if (call.kernel != "random_uniform") return nullptr;
  return [call](const KernelBuffers& buffers) {
    const TensorType& out = call.outputs[0];
    const size_t rank = out.shape.size();
    const Dims whole(std::span<const int64_t>(call.ints).subspan(1 + rank));
    const auto integer = [&](size_t i) {
      return static_cast<int32_t>(read(call.inputs[i], buffers.inputs[i], 0));
    };
    const RandomStream stream(call.ints[0],
                              random_step(integer(0), call.inputs.size() == 2 ? integer(1) : 0));
    for (int64_t i = 0; i < element_count(out.shape); ++i) {
      Dims position = position_of(out.shape, i);
      for (int dim = 0; dim < position.size(); ++dim) position[dim] += call.ints[1 + dim];
      write(out, buffers.outputs[0], i, stream.uniform(flat_index(whole, position)));
    }
  };
}

}  // namespace tessera::reference

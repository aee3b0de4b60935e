#include "kernels/cpu/spatial/spatial.h"

#include <algorithm>

#include "kernels/cpu/common/operands.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace

Range LocalWindow::places_of(int64_t w) const {
  // 0 <= place * stride + offset < in
  const int64_t offset = first() + w * dilation;
  const int64_t begin = std::clamp<int64_t>(-floor_div(offset, stride), 0, out);
  const int64_t end = std::clamp<int64_t>(floor_div(in - 1 - offset, stride) + 1, begin, out);
  return {begin, end};
}

std::vector<LocalWindow> local_windows(const LocalCall& call, const TensorType& in,
                                       const TensorType& out) {
  require(call, is_kernel_float(in.dtype) && is_kernel_float(out.dtype), "slides over f32");
  require(call, in.shape.size() >= 3 && in.shape.size() <= 5 && in.shape.size() == out.shape.size(),
          "has one to three dims of space");
  const size_t count = in.shape.size() - 2;
  require(call, call.ints.size() >= count * kIntsOfWindow,
          "takes seven integers for each dim of space");
  std::vector<LocalWindow> windows;
  for (size_t d = 0; d < count; ++d) {
    const int64_t* ints = call.ints.data() + d * kIntsOfWindow;
    const size_t dim = d + 2;
    windows.push_back({ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], ints[6], in.shape[dim],
                       out.shape[dim]});
    require(call, ints[0] >= 1 && ints[1] >= 1 && ints[2] >= 1,
            "windows, strides and dilations are at least 1");
  }
  return windows;
}

}  // namespace tessera

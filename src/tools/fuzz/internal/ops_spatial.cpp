// Generators of spatial ops: convolution and its gradients, pooling, resize.
#include <algorithm>

#include "tools/fuzz/internal/program_maker.h"

namespace tessera::fuzz {
namespace {

using Integers = std::vector<int64_t>;

/// The parameters of a window in each dim of space, and the number of its positions.
struct Slide {
  Integers window, stride, dilation, low, high, in, out;

  double size() const {
    double product = 1;
    for (int64_t extent : window) product *= static_cast<double>(extent);
    return product;
  }
  double places() const {
    double product = 1;
    for (int64_t extent : out) product *= static_cast<double>(extent);
    return product;
  }
};

/// Windows of 1 to 3 elements; padding of up to `max_padding`, or narrower than a `dense` window.
Slide random_slide(ProgramMaker& maker, const Integers& space, bool dense) {
  Slide slide;
  slide.in = space;
  for (int64_t in : space) {
    const int64_t window = maker.dice().between(1, 3),
                  dilation = dense || maker.dice().chance(0.7) ? 1 : 2;
    const int64_t largest = dense ? window - 1 : 2, reach = (window - 1) * dilation + 1;
    const int64_t low = maker.dice().between(0, largest), high = maker.dice().between(0, largest);
    // A window that does not fit is replaced by a window of one element.
    const bool fits = in + low + high >= reach;
    slide.window.push_back(fits ? window : 1);
    slide.dilation.push_back(fits ? dilation : 1);
    slide.low.push_back(fits ? low : 0);
    slide.high.push_back(fits ? high : 0);
    slide.stride.push_back(maker.dice().between(1, 3));
    slide.out.push_back(in == 0 && !fits
                            ? 0
                            : (in + slide.low.back() + slide.high.back() - (fits ? reach : 1)) /
                                      slide.stride.back() +
                                  1);
  }
  return slide;
}

Shape with_space(int64_t batch, int64_t channels, const Integers& space) {
  Shape shape{batch, channels};
  for (int64_t extent : space) shape.push_back(extent);
  return shape;
}

/// An image of the pool with one to three dims of space, none of them empty.
std::optional<Known> any_image(ProgramMaker& maker) {
  const Known x = maker.any_of_rank(DType::kF32, 3, 5);
  if (element_count(maker.shape(x)) == 0) return std::nullopt;
  return x;
}

Integers space_of(const Shape& shape) {
  return Integers(shape.begin() + 2, shape.end());
}

Attributes attributes_of(const Slide& slide, int64_t groups) {
  return {{"stride", slide.stride},
          {"dilation", slide.dilation},
          {"low", slide.low},
          {"high", slide.high},
          {"groups", groups}};
}

Known weight_of(ProgramMaker& maker, const Shape& shape) {
  return maker.dice().chance(0.6) ? maker.new_variable({DType::kF32, shape})
                                  : maker.of_type({DType::kF32, shape});
}

/// A divisor of `channels`, mostly 1.
int64_t random_groups(ProgramMaker& maker, int64_t channels) {
  if (maker.dice().chance(0.6)) return 1;
  Integers divisors;
  for (int64_t groups = 1; groups <= channels; ++groups)
    if (channels % groups == 0) divisors.push_back(groups);
  return maker.dice().pick(divisors);
}

bool is_small(const ProgramMaker& maker, const Shape& shape) {
  return element_count(shape) <= maker.max_elements();
}

bool add_convolution(ProgramMaker& maker) {
  const std::optional<Known> x = any_image(maker);
  if (!x) return false;
  const Shape shape = maker.shape(*x);
  const Slide slide = random_slide(maker, space_of(shape), false);
  const int64_t groups = random_groups(maker, shape[1]), out = groups * maker.dice().between(1, 3),
                in = shape[1] / groups;
  const Shape w_shape = with_space(out, in, slide.window);
  if (!is_small(maker, with_space(shape[0], out, slide.out)) || !is_small(maker, w_shape))
    return false;
  const Known w = weight_of(maker, w_shape);
  const double largest =
      x->bounds.magnitude() * w.bounds.magnitude() * static_cast<double>(in) * slide.size();
  return maker.add(maker.make("convolution", {*x, w}, attributes_of(slide, groups),
                              {-largest, largest}, maker.exact()));
}

/// A gradient of convolution used as a forward op: a transposed convolution.
bool add_transposed(ProgramMaker& maker) {
  const std::optional<Known> y = any_image(maker);
  if (!y) return false;
  const Shape shape = maker.shape(*y);
  Slide slide = random_slide(maker, space_of(shape), false);
  slide.out = space_of(shape);
  for (size_t d = 0; d < slide.out.size(); ++d) {
    const int64_t reach = (slide.window[d] - 1) * slide.dilation[d] + 1;
    slide.in[d] = (slide.out[d] - 1) * slide.stride[d] + reach - slide.low[d] - slide.high[d] +
                  maker.dice().below(slide.stride[d]);
    if (slide.in[d] < 1) return false;
  }
  const int64_t groups = random_groups(maker, shape[1]), in = maker.dice().between(1, 3);
  const Shape w_shape = with_space(shape[1], in, slide.window);
  if (!is_small(maker, with_space(shape[0], groups * in, slide.in)) || !is_small(maker, w_shape))
    return false;
  const Known w = weight_of(maker, w_shape);
  Attributes attributes = attributes_of(slide, groups);
  attributes.set("extents", slide.in);
  const double largest = y->bounds.magnitude() * w.bounds.magnitude() *
                         static_cast<double>(shape[1] / groups) * slide.size();
  return maker.add(maker.make("convolution_grad_input", {*y, w}, attributes, {-largest, largest},
                              maker.exact()));
}

/// A gradient of convolution used as a forward op: the correlation of two images.
bool add_correlation(ProgramMaker& maker) {
  const std::optional<Known> x = any_image(maker);
  if (!x) return false;
  const Shape shape = maker.shape(*x);
  const Slide slide = random_slide(maker, space_of(shape), false);
  const int64_t groups = random_groups(maker, shape[1]), out = groups * maker.dice().between(1, 3);
  const Shape y_shape = with_space(shape[0], out, slide.out);
  if (!is_small(maker, y_shape) ||
      !is_small(maker, with_space(out, shape[1] / groups, slide.window)))
    return false;
  const Known y = maker.of_type({DType::kF32, y_shape});
  Attributes attributes = attributes_of(slide, groups);
  attributes.set("window", slide.window);
  const double largest =
      x->bounds.magnitude() * y.bounds.magnitude() * static_cast<double>(shape[0]) * slide.places();
  return maker.add(maker.make("convolution_grad_weight", {*x, y}, attributes, {-largest, largest},
                              maker.exact()));
}

Attributes pooling_of(const Slide& slide) {
  return {
      {"window", slide.window}, {"stride", slide.stride}, {"low", slide.low}, {"high", slide.high}};
}

bool add_max_pool(ProgramMaker& maker) {
  const std::optional<Known> x = any_image(maker);
  if (!x) return false;
  const Slide slide = random_slide(maker, space_of(maker.shape(*x)), true);
  if (!is_small(maker, with_space(maker.shape(*x)[0], maker.shape(*x)[1], slide.out))) return false;
  return maker.add(maker.make("max_pool", {*x}, pooling_of(slide), x->bounds, x->whole));
}

/// A mean is not in the exact subset.
bool add_average_pool(ProgramMaker& maker) {
  if (maker.exact()) return false;
  const std::optional<Known> x = any_image(maker);
  if (!x) return false;
  const Slide slide = random_slide(maker, space_of(maker.shape(*x)), true);
  if (!is_small(maker, with_space(maker.shape(*x)[0], maker.shape(*x)[1], slide.out))) return false;
  Attributes attributes = pooling_of(slide);
  attributes.set("counts_padding", maker.dice().chance(0.5));
  return maker.add(maker.make("average_pool", {*x}, attributes,
                              {std::min(x->bounds.low, 0.0), std::max(x->bounds.high, 0.0)},
                              false));
}

/// Often scales by a whole factor, so that space may be divided. Only the nearest mode is in the
/// exact subset.
bool add_resize(ProgramMaker& maker) {
  const std::optional<Known> x = any_image(maker);
  if (!x) return false;
  const Shape shape = maker.shape(*x);
  Integers extents;
  for (int64_t in : space_of(shape)) {
    const bool grows = maker.dice().chance(0.5);
    extents.push_back(maker.dice().chance(0.6)
                          ? (grows ? in * maker.dice().between(1, 3) : std::max<int64_t>(in / 2, 1))
                          : maker.dice().between(1, 9));
  }
  if (!is_small(maker, with_space(shape[0], shape[1], extents))) return false;
  const bool is_nearest = maker.exact() || maker.dice().chance(0.4);
  const Attributes attributes{
      {"mode", std::string(is_nearest ? "nearest" : "linear")},
      {"corners", std::string(maker.dice().chance(0.5) ? "half_pixel" : "align_corners")},
      {"extents", extents}};
  return maker.add(maker.make("resize", {*x}, attributes, x->bounds, x->whole && is_nearest));
}

constexpr OpGenerator kSpatialOps[] = {
    {"convolution", 8, add_convolution},   {"transposed", 3, add_transposed},
    {"correlation", 2, add_correlation},   {"max_pool", 3, add_max_pool},
    {"average_pool", 5, add_average_pool}, {"resize", 4, add_resize}};

}  // namespace

std::span<const OpGenerator> spatial_ops() {
  return kSpatialOps;
}

}  // namespace tessera::fuzz

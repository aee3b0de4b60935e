// Spatial kernels: compares random windows with the plain twin, and parts of a divided dim with the
// whole.
#include <algorithm>
#include <array>

#include "base/testing/tensor_types.h"
#include "base/text/text.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

/// One dim of space, with the integers of the kernels in their order.
struct Dim {
  int64_t window, stride, dilation, low, in, out;
};

/// The positions of the operand that the window positions [begin, end) read.
Range seen_by(const Dim& dim, const Range& places) {
  const int64_t first = places.begin * dim.stride - dim.low;
  const int64_t end = (places.end - 1) * dim.stride - dim.low + (dim.window - 1) * dim.dilation + 1;
  if (places.empty())
    return {std::clamp<int64_t>(first, 0, dim.in), std::clamp<int64_t>(first, 0, dim.in)};
  const int64_t begin = std::clamp<int64_t>(first, 0, dim.in);
  return {begin, std::clamp<int64_t>(end, begin, dim.in)};
}

/// The window positions that read any of the positions [begin, end).
Range seeing(const Dim& dim, const Range& positions) {
  Range places{dim.out, 0};
  for (int64_t place = 0; place < dim.out; ++place)
    for (int64_t w = 0; w < dim.window; ++w) {
      const int64_t position = place * dim.stride - dim.low + w * dim.dilation;
      if (position < positions.begin || position >= positions.end) continue;
      places = {std::min(places.begin, place), std::max(places.end, place + 1)};
    }
  return places.empty() ? Range{0, 0} : places;
}

Dim random_dim(Generator& generator, bool dense) {
  Dim dim{random_int(generator, 1, 3),
          random_int(generator, 1, 3),
          dense ? 1 : random_int(generator, 1, 2),
          0,
          0,
          0};
  const int64_t reach = (dim.window - 1) * dim.dilation + 1, largest = dense ? dim.window - 1 : 3;
  const int64_t high = random_int(generator, 0, largest);
  dim.low = random_int(generator, 0, largest);
  dim.in = random_int(generator, 1, 9);
  dim.in = std::max(dim.in, reach - dim.low - high);
  dim.out = (dim.in + dim.low + high - reach) / dim.stride + 1;
  return dim;
}

/// A window over one to three dims: whole, or a part of dim 0.
struct Slide {
  std::vector<Dim> dims;

  std::vector<int64_t> ints(int64_t in_begin = 0, int64_t out_begin = 0) const {
    std::vector<int64_t> list;
    for (size_t d = 0; d < dims.size(); ++d) {
      const Dim& dim = dims[d];
      list.insert(list.end(), {dim.window, dim.stride, dim.dilation, dim.low, dim.in,
                               d == 0 ? in_begin : 0, d == 0 ? out_begin : 0});
    }
    return list;
  }
  Shape shape(int64_t batch, int64_t channels, int64_t Dim::* extent) const {
    Shape shape{batch, channels};
    for (const Dim& dim : dims) shape.push_back(dim.*extent);
    return shape;
  }
};

Slide random_slide(Generator& generator, bool dense) {
  Slide slide;
  for (int64_t count = random_int(generator, 1, 3); count > 0; --count)
    slide.dims.push_back(random_dim(generator, dense));
  return slide;
}

/// The rows `range` of dim 2.
Tensor rows_of(const Tensor& tensor, const Range& range) {
  Shape shape = tensor.shape();
  const int64_t outer = shape[0] * shape[1], rows = shape[2];
  shape[2] = range.size();
  Tensor part(f32(shape));
  const int64_t inner = rows == 0 ? 0 : tensor.size() / std::max<int64_t>(outer * rows, 1);
  for (int64_t o = 0; o < outer; ++o)
    std::copy_n(tensor.values<float>().data() + (o * rows + range.begin) * inner,
                range.size() * inner, part.values<float>().data() + o * range.size() * inner);
  return part;
}

TensorType with_rows(const TensorType& type, int64_t rows) {
  TensorType result = type;
  result.shape[2] = rows;
  return result;
}

/// The largest error of a sum of `terms` products of numbers below 2, in either implementation.
double sum_error(double terms) {
  return 2 * (terms + 2) * kRoundoff * 4 * terms;
}

std::function<double(size_t)> within(double error) {
  return [error](size_t) { return error; };
}

struct Trial {
  LocalCall call;
  Tensors inputs;
  double error;
};

void expect_twins_agree(const Trial& trial, const std::string& about) {
  expect_near(run_fast(trial.call, trial.inputs)[0], run_plain(trial.call, trial.inputs)[0],
              within(trial.error), about);
}

/// A convolution of random channels, whole.
struct Convolution {
  Slide slide;
  int64_t batch, groups, in, out;

  Shape x() const { return slide.shape(batch, groups * in, &Dim::in); }
  Shape w() const { return slide.shape(groups * out, in, &Dim::window); }
  Shape y() const { return slide.shape(batch, groups * out, &Dim::out); }
  double window() const {
    return static_cast<double>(element_count(slide.shape(1, 1, &Dim::window)));
  }
  double places() const { return static_cast<double>(element_count(slide.shape(1, 1, &Dim::out))); }

  std::array<Trial, 3> trials(Generator& generator) const {
    const Tensor tx = random_tensor(generator, f32(x())), tw = random_tensor(generator, f32(w())),
                 ty = random_tensor(generator, f32(y()));
    const auto b = static_cast<double>(batch), i = static_cast<double>(in),
               o = static_cast<double>(out);
    return {
        Trial{{"convolution", slide.ints(), {}, "", {f32(x()), f32(w())}, {f32(y())}},
              tensors(tx, tw),
              sum_error(i * window())},
        Trial{{"convolution_grad_input", slide.ints(), {}, "", {f32(y()), f32(w())}, {f32(x())}},
              tensors(ty, tw),
              sum_error(o * window())},
        Trial{{"convolution_grad_weight", slide.ints(), {}, "", {f32(x()), f32(y())}, {f32(w())}},
              tensors(tx, ty),
              sum_error(b * places())}};
  }

  static Tensors tensors(const Tensor& a, const Tensor& b) {
    Tensors list;
    list.push_back(a.clone());
    list.push_back(b.clone());
    return list;
  }
};

Convolution random_convolution(Generator& generator) {
  static constexpr int64_t kChannels[] = {1, 2, 3, 7, 8, 16, 17};
  const auto channels = [&] { return kChannels[random_int(generator, 0, 6)]; };
  const int64_t groups = random_int(generator, 0, 2) > 0 ? 1 : random_int(generator, 2, 16);
  Slide slide = random_slide(generator, false);
  return {slide, random_int(generator, 0, 3), groups,
          groups > 1 ? random_int(generator, 1, 3) : channels(),
          groups > 1 ? random_int(generator, 1, 3) : channels()};
}

TEST(KernelConvolution, IsItsPlainTwin) {
  for (int seed = 0; seed < 150; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    const Convolution convolution = random_convolution(generator);
    for (const Trial& trial : convolution.trials(generator))
      expect_twins_agree(trial, trial.call.kernel + ", seed " + std::to_string(seed));
  }
}

TEST(KernelConvolution, OfNoChannelsIsASumOfNothing) {
  const LocalCall call{
      "convolution",   {1, 1, 1, 0, 3, 0, 0}, {}, "", {f32({2, 0, 3}), f32({4, 0, 1})},
      {f32({2, 4, 3})}};
  Tensors inputs;
  for (const TensorType& type : call.inputs) inputs.emplace_back(type);
  const Tensors made = run_fast(call, inputs);
  for (float value : made[0].values<float>()) EXPECT_EQ(value, 0);
}

TEST(KernelConvolution, OfAPartOfThePlacesIsThatPartOfTheWhole) {
  for (int seed = 0; seed < 100; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    const Convolution convolution = random_convolution(generator);
    const Dim& dim = convolution.slide.dims[0];
    const auto [forward, to_input, to_weight] = convolution.trials(generator);
    const Tensor whole = run_plain(forward.call, forward.inputs)[0].clone();
    for (int64_t part = 0; part < 3; ++part) {
      const Range places = balanced_part(dim.out, 3, part), seen = seen_by(dim, places);
      LocalCall call = forward.call;
      call.ints = convolution.slide.ints(seen.begin, places.begin);
      call.inputs[0] = with_rows(call.inputs[0], seen.size());
      call.outputs[0] = with_rows(call.outputs[0], places.size());
      Tensors inputs;
      inputs.push_back(rows_of(forward.inputs[0], seen));
      inputs.push_back(forward.inputs[1].clone());
      expect_near(run_fast(call, inputs)[0], rows_of(whole, places), within(forward.error),
                  "seed " + std::to_string(seed));
      expect_near(run_plain(call, inputs)[0], rows_of(whole, places), within(forward.error),
                  "plain, seed " + std::to_string(seed));
    }
  }
}

TEST(KernelConvolution, GradientOfAPartOfTheInputNeedsThePlacesThatSeeIt) {
  for (int seed = 0; seed < 100; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    const Convolution convolution = random_convolution(generator);
    const Dim& dim = convolution.slide.dims[0];
    const Trial backward = std::move(convolution.trials(generator)[1]);
    const Tensor whole = run_plain(backward.call, backward.inputs)[0].clone();
    for (int64_t part = 0; part < 3; ++part) {
      const Range positions = balanced_part(dim.in, 3, part), places = seeing(dim, positions);
      LocalCall call = backward.call;
      call.ints = convolution.slide.ints(positions.begin, places.begin);
      call.inputs[0] = with_rows(call.inputs[0], places.size());
      call.outputs[0] = with_rows(call.outputs[0], positions.size());
      Tensors inputs;
      inputs.push_back(rows_of(backward.inputs[0], places));
      inputs.push_back(backward.inputs[1].clone());
      expect_near(run_fast(call, inputs)[0], rows_of(whole, positions), within(backward.error),
                  "seed " + std::to_string(seed));
    }
  }
}

TEST(KernelConvolution, GradientsOfTheWeightByPartsOfThePlacesAddUp) {
  for (int seed = 0; seed < 100; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    const Convolution convolution = random_convolution(generator);
    const Dim& dim = convolution.slide.dims[0];
    const Trial backward = std::move(convolution.trials(generator)[2]);
    Tensor sum(backward.call.outputs[0]);
    for (int64_t part = 0; part < 3; ++part) {
      const Range places = balanced_part(dim.out, 3, part), seen = seen_by(dim, places);
      LocalCall call = backward.call;
      call.ints = convolution.slide.ints(seen.begin, places.begin);
      call.inputs = {with_rows(call.inputs[0], seen.size()),
                     with_rows(call.inputs[1], places.size())};
      Tensors inputs;
      inputs.push_back(rows_of(backward.inputs[0], seen));
      inputs.push_back(rows_of(backward.inputs[1], places));
      const Tensors made = run_fast(call, inputs);
      for (int64_t i = 0; i < sum.size(); ++i) sum.values<float>()[i] += made[0].values<float>()[i];
    }
    expect_near(sum, run_plain(backward.call, backward.inputs)[0], within(2 * backward.error),
                "seed " + std::to_string(seed));
  }
}

struct Pooling {
  Slide slide;
  Shape x, y;
};

Pooling random_pooling(Generator& generator) {
  const Slide slide = random_slide(generator, true);
  const int64_t batch = random_int(generator, 0, 2), channels = random_int(generator, 1, 3);
  return {slide, slide.shape(batch, channels, &Dim::in), slide.shape(batch, channels, &Dim::out)};
}

/// Has few values, so that windows have ties, and sometimes an infinity or NaN.
Tensor tied_tensor(Generator& generator, const TensorType& type) {
  Tensor tensor(type);
  for (float& x : tensor.values<float>()) {
    x = static_cast<float>(random_int(generator, -1, 1));
    if (random_int(generator, 0, 30) == 0) x = -std::numeric_limits<float>::infinity();
    if (random_int(generator, 0, 60) == 0) x = std::numeric_limits<float>::quiet_NaN();
  }
  return tensor;
}

TEST(KernelMaxPool, IsItsPlainTwinBitByBit) {
  for (int seed = 0; seed < 200; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    const Pooling pooling = random_pooling(generator);
    Tensors inputs;
    inputs.push_back(tied_tensor(generator, f32(pooling.x)));
    expect_near(
        run_fast({"max_pool", pooling.slide.ints(), {}, "", {f32(pooling.x)}, {f32(pooling.y)}},
                 inputs)[0],
        run_plain({"max_pool", pooling.slide.ints(), {}, "", {f32(pooling.x)}, {f32(pooling.y)}},
                  inputs)[0],
        within(0), "seed " + std::to_string(seed));
    inputs.push_back(random_tensor(generator, f32(pooling.y)));
    std::vector<int64_t> ints = pooling.slide.ints();
    ints.resize(ints.size() + pooling.slide.dims.size(), 0);
    expect_twins_agree(
        {{"max_pool_grad", ints, {}, "", {f32(pooling.x), f32(pooling.y)}, {f32(pooling.x)}},
         std::move(inputs),
         sum_error(27)},
        "gradient, seed " + std::to_string(seed));
  }
}

TEST(KernelMaxPool, OfTwoEqualElementsTheFirstGetsTheGradient) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({1, 1, 4}, {1, 3, 3, 2}));
  inputs.push_back(Tensor::of<float>({1, 1, 2}, {5, 7}));
  // The windows read 1 3 3 and 3 3 2, at a stride of 1.
  const LocalCall call{
      "max_pool_grad", {3, 1, 1, 0, 4, 0, 0, 0}, {}, "", {f32({1, 1, 4}), f32({1, 1, 2})},
      {f32({1, 1, 4})}};
  const Tensors made = run_fast(call, inputs);
  const auto dx = made[0].values<float>();
  EXPECT_EQ(std::vector<float>(dx.begin(), dx.end()), (std::vector<float>{0, 12, 0, 0}));
}

TEST(KernelPools, OfAPartOfThePlacesAreThatPartOfTheWhole) {
  for (int seed = 0; seed < 150; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    const Pooling pooling = random_pooling(generator);
    const Dim& dim = pooling.slide.dims[0];
    Tensors inputs;
    inputs.push_back(random_tensor(generator, f32(pooling.x)));
    for (const std::string kernel : {"max_pool", "average_pool"})
      for (int64_t counts_padding : {0, 1}) {
        const auto call_of = [&](const Range& seen, const Range& places) {
          LocalCall call{kernel,
                         pooling.slide.ints(seen.begin, places.begin),
                         {},
                         "",
                         {with_rows(f32(pooling.x), seen.size())},
                         {with_rows(f32(pooling.y), places.size())}};
          if (kernel == "average_pool") call.ints.push_back(counts_padding);
          return call;
        };
        const Tensors whole = run_fast(call_of({0, dim.in}, {0, dim.out}), inputs);
        for (int64_t part = 0; part < 3; ++part) {
          const Range places = balanced_part(dim.out, 3, part), seen = seen_by(dim, places);
          Tensors rows;
          rows.push_back(rows_of(inputs[0], seen));
          const std::string about = kernel + ", seed " + std::to_string(seed);
          expect_same_bits(run_fast(call_of(seen, places), rows)[0], rows_of(whole[0], places),
                           about);
          expect_near(run_plain(call_of(seen, places), rows)[0], rows_of(whole[0], places),
                      within(sum_error(27)), about);
        }
      }
  }
}

TEST(KernelPools, GradientsOfAPartOfTheInputAreThatPartOfTheWhole) {
  for (int seed = 0; seed < 150; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    const Pooling pooling = random_pooling(generator);
    const Dim& dim = pooling.slide.dims[0];
    const Tensor x = random_tensor(generator, f32(pooling.x)),
                 dy = random_tensor(generator, f32(pooling.y));
    for (const std::string kernel : {"max_pool_grad", "average_pool_grad"})
      for (int64_t counts_padding : {0, 1}) {
        const bool is_max = kernel == "max_pool_grad";
        const auto run = [&](const Range& made, const Range& places, const Range& seen) {
          LocalCall call{kernel, pooling.slide.ints(is_max ? seen.begin : made.begin, places.begin),
                         {},     "",
                         {},     {with_rows(f32(pooling.x), made.size())}};
          Tensors inputs;
          if (is_max) {
            inputs.push_back(rows_of(x, seen));
            for (size_t d = 0; d < pooling.slide.dims.size(); ++d)
              call.ints.push_back(d == 0 ? made.begin : 0);
          } else {
            call.ints.push_back(counts_padding);
          }
          inputs.push_back(rows_of(dy, places));
          call.inputs = types_of(inputs);
          return std::move(run_fast(call, inputs)[0]);
        };
        const Tensor whole = run({0, dim.in}, {0, dim.out}, {0, dim.in});
        for (int64_t part = 0; part < 3; ++part) {
          const Range made = balanced_part(dim.in, 3, part), places = seeing(dim, made);
          expect_same_bits(run(made, places, seen_by(dim, places)), rows_of(whole, made),
                           kernel + ", seed " + std::to_string(seed));
        }
      }
  }
}

TEST(KernelAveragePool, IsItsPlainTwin) {
  for (int seed = 0; seed < 150; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    const Pooling pooling = random_pooling(generator);
    for (int64_t counts_padding : {0, 1}) {
      std::vector<int64_t> ints = pooling.slide.ints();
      ints.push_back(counts_padding);
      Tensors x, dy;
      x.push_back(random_tensor(generator, f32(pooling.x)));
      dy.push_back(random_tensor(generator, f32(pooling.y)));
      const std::string about = "seed " + std::to_string(seed);
      expect_twins_agree({{"average_pool", ints, {}, "", {f32(pooling.x)}, {f32(pooling.y)}},
                          std::move(x),
                          sum_error(27)},
                         about);
      expect_twins_agree({{"average_pool_grad", ints, {}, "", {f32(pooling.y)}, {f32(pooling.x)}},
                          std::move(dy),
                          sum_error(27)},
                         about);
    }
  }
}

TEST(KernelResize, IsItsPlainTwin) {
  for (int seed = 0; seed < 60; ++seed) {
    Generator generator(static_cast<unsigned>(seed));
    Shape x{random_int(generator, 0, 2), random_int(generator, 1, 2)}, y = x;
    std::vector<int64_t> ints;
    for (int64_t count = random_int(generator, 1, 3); count > 0; --count) {
      x.push_back(random_int(generator, 1, 6));
      y.push_back(random_int(generator, 1, 9));
      ints.insert(ints.end(), {x[x.size() - 1], y[y.size() - 1], 0, 0});
    }
    for (const char* mode : {"nearest half_pixel", "nearest align_corners", "linear half_pixel",
                             "linear align_corners"}) {
      Tensors to, back;
      to.push_back(random_tensor(generator, f32(x)));
      back.push_back(random_tensor(generator, f32(y)));
      const std::string about = std::string(mode) + ", seed " + std::to_string(seed);
      expect_twins_agree(
          {{"resize", ints, {}, mode, {f32(x)}, {f32(y)}}, std::move(to), sum_error(16)}, about);
      expect_twins_agree({{"resize_grad", ints, {}, mode, {f32(y)}, {f32(x)}},
                          std::move(back),
                          sum_error(9 * 9 * 9)},
                         about);
    }
  }
}

TEST(KernelResize, HalfWayTheLowerOneIsNearest) {
  Tensors x;
  x.push_back(Tensor::of<float>({1, 1, 4}, {1, 2, 3, 4}));
  // The centres of the two halves are at 1/2 and 5/2.
  const Tensors made = run_fast(
      {"resize", {4, 2, 0, 0}, {}, "nearest half_pixel", {f32({1, 1, 4})}, {f32({1, 1, 2})}}, x);
  EXPECT_EQ(made[0].values<float>()[0], 1);
  EXPECT_EQ(made[0].values<float>()[1], 3);
}

}  // namespace
}  // namespace tessera

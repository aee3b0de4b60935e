#include <cmath>
#include <limits>

#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

struct Sizes {
  int64_t batch, queries, keys, heads, depth;
};

std::string text_of(const Sizes& n, bool causal, int64_t first) {
  return "B" + std::to_string(n.batch) + " S" + std::to_string(n.queries) + " T" +
         std::to_string(n.keys) + " H" + std::to_string(n.heads) + " D" + std::to_string(n.depth) +
         (causal ? " causal from " + std::to_string(first) : "");
}

TensorType query_type(const Sizes& n) {
  return {DType::kF32, {n.batch, n.queries, n.heads, n.depth}};
}
TensorType key_type(const Sizes& n) {
  return {DType::kF32, {n.batch, n.keys, n.heads, n.depth}};
}
TensorType lse_type(const Sizes& n) {
  return {DType::kF32, {n.batch, n.heads, n.queries}};
}

LocalCall forward_call(const Sizes& n, bool causal, int64_t first) {
  return {"attention",
          {causal ? 1 : 0, first},
          {0.7},
          "",
          {query_type(n), key_type(n), key_type(n)},
          {query_type(n), lse_type(n)}};
}

LocalCall gradient_call(const Sizes& n, bool causal, int64_t first) {
  return {"attention_grad",
          {causal ? 1 : 0, first},
          {0.7},
          "",
          {query_type(n), key_type(n), key_type(n), query_type(n), lse_type(n), query_type(n)},
          {query_type(n), key_type(n), key_type(n)}};
}

Tensors random_inputs(Generator& generator, const Sizes& n) {
  Tensors inputs;
  for (const TensorType& type : {query_type(n), key_type(n), key_type(n)})
    inputs.push_back(random_tensor(generator, type));
  return inputs;
}

// Values are in [-2, 2), so a score is at most 4 * 0.7 * depth, with an error of (depth + 2)
// roundings of that. The error of a score is the relative error of its exponential. The weighted
// mean of v adds a rounding per key, once for its numerator and once for its denominator, and exp
// and the quotient add a few. max_value bounds the averaged values.
double relative_error(const Sizes& n) {
  const double depth = static_cast<double>(n.depth), keys = static_cast<double>(n.keys);
  return kRoundoff * (2 * (depth + 2) * 4 * 0.7 * depth + 2 * keys + 16);
}

const std::vector<Sizes> kAttentionSizes = {
    {1, 1, 1, 1, 1},   {2, 3, 5, 2, 4},  {1, 7, 7, 3, 5},     {2, 8, 8, 1, 16},
    {1, 0, 3, 2, 4},   {1, 3, 0, 2, 4},  {0, 3, 3, 2, 4},     {1, 3, 3, 2, 0},
    {1, 70, 70, 1, 3}, {1, 65, 9, 2, 8}, {1, 130, 140, 1, 2}, {2, 1, 33, 2, 8}};

TEST(AttentionKernels, AttentionEqualsTheReference) {
  Generator generator(1);
  for (const Sizes& n : kAttentionSizes)
    for (bool causal : {false, true})
      for (int64_t first : {0, 2, -2}) {
        const LocalCall call = forward_call(n, causal, first);
        const Tensors inputs = random_inputs(generator, n);
        const Tensors fast = run_fast(call, inputs), plain = run_plain(call, inputs);
        const double tolerance = 2.0 * relative_error(n);  // |v| < 2
        expect_near(
            fast[0], plain[0], [&](size_t) { return tolerance; },
            "out " + text_of(n, causal, first));
        expect_near(
            fast[1], plain[1],
            [&](size_t i) {
              return relative_error(n) + 4 * kRoundoff * std::fabs(plain[1].values<float>()[i]);
            },
            "lse " + text_of(n, causal, first));
      }
}

TEST(AttentionKernels, ARowThatSeesNothingGivesZerosAndMinusInfinity) {
  Generator generator(2);
  const Sizes n{1, 3, 4, 1, 2};
  const Tensors out =
      // Positions are -2, -1, 0: only the last query sees key 0.
      run_fast(forward_call(n, true, -2), random_inputs(generator, n));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(out[0].values<float>()[i], 0.0f);
  EXPECT_EQ(out[1].values<float>()[0], -kInfinity);
  EXPECT_EQ(out[1].values<float>()[1], -kInfinity);
  EXPECT_TRUE(std::isfinite(out[1].values<float>()[2]));
}

TEST(AttentionKernels, AQueryThatSeesOneKeyCopiesItsValue) {
  Generator generator(3);
  const Sizes n{1, 1, 4, 1, 3};
  const Tensors inputs = random_inputs(generator, n);
  const Tensors out = run_fast(forward_call(n, true, 0), inputs);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(out[0].values<float>()[i], inputs[2].values<float>()[i]);
}

TEST(AttentionKernels, ScoresFarApartDoNotOverflow) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({1, 1, 1, 1}, {1000.0f}));
  inputs.push_back(Tensor::of<float>({1, 2, 1, 1}, {1000.0f, -1000.0f}));
  inputs.push_back(Tensor::of<float>({1, 2, 1, 1}, {3.0f, 5.0f}));
  const Tensors out = run_fast(forward_call({1, 1, 2, 1, 1}, false, 0), inputs);
  EXPECT_EQ(out[0].values<float>()[0], 3.0f);
  EXPECT_NEAR(out[1].values<float>()[0], 0.7e6, 0.7e6 * 4 * kRoundoff);
}

// Rows [begin, begin + count) of dim 1 of [B, S, H, D] with one batch.
Tensor query_rows(const Tensor& tensor, int64_t begin, int64_t count) {
  const Shape& shape = tensor.shape();
  const int64_t row = shape[2] * shape[3];
  const auto values = tensor.values<float>().subspan(begin * row, static_cast<size_t>(count * row));
  return Tensor::of<float>({1, count, shape[2], shape[3]}, std::span<const float>(values));
}

TEST(AttentionKernels, APartOfTheQueriesAtItsPositionGivesItsRowsOfTheWhole) {
  Generator generator(4);
  const Sizes whole{1, 150, 150, 2, 8};
  const Tensors inputs = random_inputs(generator, whole);
  const Tensors expected = run_fast(forward_call(whole, true, 0), inputs);
  for (const auto& [begin, count] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 50}, {50, 50}, {64, 64}, {149, 1}}) {
    Tensors part;
    part.push_back(query_rows(inputs[0], begin, count));
    part.push_back(inputs[1].clone());
    part.push_back(inputs[2].clone());
    const Tensors rows = run_fast(forward_call({1, count, 150, 2, 8}, true, begin), part);
    expect_near(
        rows[0], query_rows(expected[0], begin, count),
        [&](size_t) { return 2 * relative_error(whole); }, "queries from " + std::to_string(begin));
  }
}

Tensors with_gradient_inputs(Generator& generator, const Sizes& n, bool causal, int64_t first,
                             Tensors inputs) {
  Tensors forward = run_plain(forward_call(n, causal, first), inputs);
  for (Tensor& tensor : forward) inputs.push_back(std::move(tensor));
  inputs.push_back(random_tensor(generator, query_type(n)));
  return inputs;
}

// Error of a gradient whose probabilities sum to 1: p (dp - shared) with |dp| and |shared| at most
// 4 depth meets a factor below 2; all carry the relative error of p.
double gradient_tolerance(const Sizes& n) {
  return relative_error(n) * 2 * 8 * static_cast<double>(n.depth + 1);
}

// For each element of k and v, the sum of p over the queries. It is the gradient of v when dout is
// 1 everywhere.
Tensor sums_of_probabilities(const LocalCall& call, const Tensors& inputs) {
  Tensors with_ones;
  for (const Tensor& tensor : inputs) with_ones.push_back(tensor.clone());
  for (float& x : with_ones[5].values<float>()) x = 1.0f;
  return run_plain(call, with_ones)[2].clone();
}

TEST(AttentionKernels, GradientsEqualTheReference) {
  Generator generator(5);
  for (const Sizes& n : kAttentionSizes)
    for (bool causal : {false, true})
      for (int64_t first : {0, 2, -2}) {
        const Tensors inputs =
            with_gradient_inputs(generator, n, causal, first, random_inputs(generator, n));
        const LocalCall call = gradient_call(n, causal, first);
        const Tensors fast = run_fast(call, inputs), plain = run_plain(call, inputs);
        const Tensor attention_of_keys = sums_of_probabilities(call, inputs);
        const auto of_keys = [&](size_t i) {
          return gradient_tolerance(n) * attention_of_keys.values<float>()[i];
        };
        const std::string about = text_of(n, causal, first);
        expect_near(
            fast[0], plain[0], [&](size_t) { return gradient_tolerance(n); }, "dq " + about);
        expect_near(fast[1], plain[1], of_keys, "dk " + about);
        expect_near(fast[2], plain[2], of_keys, "dv " + about);
      }
}

// Computes attention again, in double from the definition, to differentiate numerically.
std::vector<double> attention_in_double(const Sizes& n, bool causal, int64_t first,
                                        const std::vector<double>& q, const std::vector<double>& k,
                                        const std::vector<double>& v) {
  std::vector<double> out(q.size(), 0.0);
  const auto at = [&](int64_t b, int64_t row, int64_t rows, int64_t h, int64_t d) {
    return static_cast<size_t>(((b * rows + row) * n.heads + h) * n.depth + d);
  };
  for (int64_t b = 0; b < n.batch; ++b)
    for (int64_t h = 0; h < n.heads; ++h)
      for (int64_t s = 0; s < n.queries; ++s) {
        const int64_t visible = causal ? std::clamp(first + s + 1, int64_t{0}, n.keys) : n.keys;
        double sum = 0.0;
        std::vector<double> weights;
        for (int64_t t = 0; t < visible; ++t) {
          double score = 0.0;
          for (int64_t d = 0; d < n.depth; ++d)
            score += q[at(b, s, n.queries, h, d)] * k[at(b, t, n.keys, h, d)];
          sum += weights.emplace_back(std::exp(0.7 * score));
        }
        for (int64_t t = 0; t < visible; ++t)
          for (int64_t d = 0; d < n.depth; ++d)
            out[at(b, s, n.queries, h, d)] += weights[t] / sum * v[at(b, t, n.keys, h, d)];
      }
  return out;
}

std::vector<double> in_double(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

TEST(AttentionKernels, GradientsEqualFiniteDifferences) {
  Generator generator(6);
  const Sizes n{2, 3, 4, 2, 3};
  for (bool causal : {false, true}) {
    constexpr int64_t kFirst = -1;  // with the mask, the first query sees nothing
    const Tensors inputs =
        with_gradient_inputs(generator, n, causal, kFirst, random_inputs(generator, n));
    const std::vector<double> dout = in_double(inputs[5]);
    std::vector<std::vector<double>> qkv = {in_double(inputs[0]), in_double(inputs[1]),
                                            in_double(inputs[2])};
    const auto loss = [&] {
      const std::vector<double> out =
          attention_in_double(n, causal, kFirst, qkv[0], qkv[1], qkv[2]);
      double sum = 0.0;
      for (size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
      return sum;
    };
    const LocalCall call = gradient_call(n, causal, kFirst);
    const Tensors fast = run_fast(call, inputs), plain = run_plain(call, inputs);
    // The error of a central difference is about step^2 + 1e-16 / step = 1e-10.
    constexpr double kStep = 1e-5;
    for (size_t operand = 0; operand < 3; ++operand)
      for (size_t i = 0; i < qkv[operand].size(); ++i) {
        const double value = qkv[operand][i];
        qkv[operand][i] = value + kStep;
        const double above = loss();
        qkv[operand][i] = value - kStep;
        const double below = loss();
        qkv[operand][i] = value;
        const double slope = (above - below) / (2 * kStep);
        // The p of a key sum to at most 3 over the 3 queries.
        const double tolerance = 3 * gradient_tolerance(n) + 1e-8;
        EXPECT_NEAR(plain[operand].values<float>()[i], slope, tolerance)
            << "reference, operand " << operand << " [" << i << "]";
        EXPECT_NEAR(fast[operand].values<float>()[i], slope, tolerance)
            << "operand " << operand << " [" << i << "]";
      }
  }
}

TEST(AttentionKernels, GradientsOfRowsThatSeeNothingAreZero) {
  Generator generator(7);
  const Sizes n{1, 2, 3, 1, 2};
  const Tensors inputs = with_gradient_inputs(generator, n, true, -5, random_inputs(generator, n));
  const Tensors gradients = run_fast(gradient_call(n, true, -5), inputs);
  for (const Tensor& gradient : gradients)
    for (float x : gradient.values<float>()) EXPECT_EQ(x, 0.0f);
}

}  // namespace
}  // namespace tessera

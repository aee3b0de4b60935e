// attention, attention_grad
#include <cmath>
#include <limits>

#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

// Names as in the catalogue: q [B,S,H,D], k and v [B,T,H,D], lse [B,H,S].
struct Sizes {
  int64_t B, S, T, H, D;
};

Sizes sizes_of(const LocalCall& call) {
  const Shape &q = call.inputs[0].shape, &k = call.inputs[1].shape;
  return {q[0], q[1], k[1], q[2], q[3]};
}

double at(const LocalCall& call, const KernelBuffers& buffers, size_t operand, Dims position) {
  return read(call.inputs[operand], buffers.inputs[operand],
              flat_index(call.inputs[operand].shape, position));
}

bool sees(const LocalCall& call, int64_t query, int64_t key) {
  return call.ints[0] == 0 || key <= call.ints[1] + query;
}

double score(const LocalCall& call, const KernelBuffers& buffers, int64_t b, int64_t s, int64_t t,
             int64_t h) {
  double sum = 0.0;
  for (int64_t d = 0; d < sizes_of(call).D; ++d)
    sum += at(call, buffers, 0, {b, s, h, d}) * at(call, buffers, 1, {b, t, h, d});
  return sum * call.reals[0];
}

// The log of the sum of exp(score) over the keys that the query sees. The largest score is
// subtracted so that nothing overflows.
double log_sum_exp(const LocalCall& call, const KernelBuffers& buffers, int64_t b, int64_t s,
                   int64_t h) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (int64_t t = 0; t < sizes_of(call).T; ++t)
    if (sees(call, s, t)) largest = std::fmax(largest, score(call, buffers, b, s, t, h));
  if (std::isinf(largest)) return largest;
  for (int64_t t = 0; t < sizes_of(call).T; ++t)
    if (sees(call, s, t)) sum += std::exp(score(call, buffers, b, s, t, h) - largest);
  return largest + std::log(sum);
}

void attend_row(const LocalCall& call, const KernelBuffers& buffers, int64_t b, int64_t s,
                int64_t h) {
  const Sizes n = sizes_of(call);
  const double lse = log_sum_exp(call, buffers, b, s, h);
  write(call.outputs[1], buffers.outputs[1], flat_index(call.outputs[1].shape, {b, h, s}), lse);
  std::vector<double> sums(n.D, 0.0);
  for (int64_t t = 0; t < n.T; ++t) {
    if (!sees(call, s, t)) continue;
    const double probability = std::exp(score(call, buffers, b, s, t, h) - lse);
    for (int64_t d = 0; d < n.D; ++d) sums[d] += probability * at(call, buffers, 2, {b, t, h, d});
  }
  for (int64_t d = 0; d < n.D; ++d)
    write(call.outputs[0], buffers.outputs[0], flat_index(call.outputs[0].shape, {b, s, h, d}),
          sums[d]);
}

struct Gradients {
  std::vector<double> q, k, v;
};

// With p = softmax(scale q k^T) and out = p v:
//     dv_t = sum_s p_st dout_s
//     dp_st = dout_s v_t
//     dscore_st = p_st (dp_st - dout_s out_s)
//     dq_s = scale sum_t dscore_st k_t
//     dk_t = scale sum_s dscore_st q_s
void add_pair(const LocalCall& call, const KernelBuffers& buffers, int64_t b, int64_t s, int64_t t,
              int64_t h, Gradients& gradients) {
  const double lse = at(call, buffers, 4, {b, h, s});
  const double probability = std::exp(score(call, buffers, b, s, t, h) - lse);
  double difference = 0.0;
  for (int64_t d = 0; d < sizes_of(call).D; ++d)
    difference += at(call, buffers, 5, {b, s, h, d}) *
                  (at(call, buffers, 2, {b, t, h, d}) - at(call, buffers, 3, {b, s, h, d}));
  const double score_gradient = call.reals[0] * probability * difference;
  for (int64_t d = 0; d < sizes_of(call).D; ++d) {
    const size_t query = flat_index(call.inputs[0].shape, {b, s, h, d});
    const size_t key = flat_index(call.inputs[1].shape, {b, t, h, d});
    gradients.q[query] += score_gradient * at(call, buffers, 1, {b, t, h, d});
    gradients.k[key] += score_gradient * at(call, buffers, 0, {b, s, h, d});
    gradients.v[key] += probability * at(call, buffers, 5, {b, s, h, d});
  }
}

// Calls visit(b, s, t, h) for every query and every key that it sees.
template <typename Visit>
void for_each_pair(const LocalCall& call, const Visit& visit) {
  const Sizes n = sizes_of(call);
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t s = 0; s < n.S; ++s)
      for (int64_t t = 0; t < n.T; ++t)
        for (int64_t h = 0; h < n.H; ++h)
          if (sees(call, s, t)) visit(b, s, t, h);
}

void write_all(const LocalCall& call, const KernelBuffers& buffers, size_t operand,
               const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i)
    write(call.outputs[operand], buffers.outputs[operand], i, values[i]);
}

void attend_gradient(const LocalCall& call, const KernelBuffers& buffers) {
  const auto zeros = [&call](size_t operand) {
    return std::vector<double>(element_count(call.outputs[operand].shape), 0.0);
  };
  Gradients gradients{zeros(0), zeros(1), zeros(2)};
  for_each_pair(call, [&](int64_t b, int64_t s, int64_t t, int64_t h) {
    add_pair(call, buffers, b, s, t, h, gradients);
  });
  write_all(call, buffers, 0, gradients.q);
  write_all(call, buffers, 1, gradients.k);
  write_all(call, buffers, 2, gradients.v);
}

void attend(const LocalCall& call, const KernelBuffers& buffers) {
  const Sizes n = sizes_of(call);
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t s = 0; s < n.S; ++s)
      for (int64_t h = 0; h < n.H; ++h) attend_row(call, buffers, b, s, h);
}

}  // namespace

Run attention(const LocalCall& call) {
  if (call.kernel == "attention")
    return [call](const KernelBuffers& buffers) { attend(call, buffers); };
  if (call.kernel == "attention_grad")
    return [call](const KernelBuffers& buffers) { attend_gradient(call, buffers); };
  return nullptr;
}

}  // namespace tessera::reference

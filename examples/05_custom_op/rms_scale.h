// An operator of a user's own program, with its gradient.
//
//     rms_scale(x f32[N..., E], gain f32[E]) {epsilon}  =  y f32[N..., E]
//
//     r_n  = 1 / sqrt(mean_e x_ne^2 + epsilon)
//     y_ne = x_ne r_n gain_e
//
// Source: Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv 1910.07467.
#pragma once

#include "ir/ops/operator_set.h"

/// rms_scale, its gradient as one fused operator rms_scale_grad, and their kernels.
std::vector<tessera::Operator> rms_scale_operators();
std::vector<tessera::NamedKernel> rms_scale_kernels();

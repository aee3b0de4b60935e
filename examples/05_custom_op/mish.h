// The smallest operator of a user's own program: element-wise, with a gradient and a kernel.
//
//     mish(x f32[N...]) = x tanh(log(1 + exp(x)))
//
// Source: Misra, Mish: A Self Regularized Non-Monotonic Activation Function, arXiv 1908.08681.
#pragma once

#include "ir/ops/operator_set.h"

/// A set with mish and its kernel: give it to the constructor of a graph.
tessera::OperatorSetPtr mish_operators();

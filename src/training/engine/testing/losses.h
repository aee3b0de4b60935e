// Steps of a run, for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "training/engine/engine.h"
#include "training/fit/fit.h"

namespace tessera {

/// The losses of `steps` more steps.
inline std::vector<double> losses(Engine& engine, int64_t steps) {
  std::vector<double> list;
  for (const StepResult& result : fit(engine, steps)) list.push_back(result.loss);
  return list;
}

}  // namespace tessera

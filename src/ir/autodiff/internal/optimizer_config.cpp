#include "ir/autodiff/internal/optimizer_config.h"

#include "base/error.h"

namespace tessera {

std::string_view to_text(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kMomentum: return "momentum";
    case OptimizerKind::kAdam: return "adam";
    case OptimizerKind::kAdamW: return "adamw";
    case OptimizerKind::kLamb: return "lamb";
    case OptimizerKind::kMuon: return "muon";
  }
  throw InternalError("unknown optimizer");
}

OptimizerConfig with_measured_norm(OptimizerConfig config) {
  config.measure_norm = true;
  return config;
}

}  // namespace tessera

// The order of the instructions of a step: when each stage computes which micro-batch.
#pragma once

#include "cluster/cost/cost_model.h"
#include "compiler/lower/internal/program.h"
#include "compiler/schedule/pipeline.h"

namespace tessera {

struct OrderOptions {
  int64_t micro_batches = 1;
  PipelineKind kind = PipelineKind::kOneForwardOneBackward;
  int64_t max_in_flight = 0;  // of `auto`: PipelineOptions
  CostModel cost = {};
  std::vector<std::string> stage_names = {};  // for errors
};

/// Sets the order in which the instructions of all micro-batches are executed, by the schedule of
/// their stages, and the pipeline pass of each (RolledForm::order). Meshes that share ranks are
/// stages of one device, except for views, which belong to their stage.
///
///   requires  with several micro-batches a rolled program
///   ensures  each instruction comes after those whose registers it reads, and after those that
///            read a variable before it is written over; with one micro-batch nothing changes
///   times    are price floors of the work that operators declare, divided as their operands are:
///            neither launches nor links count
///   returns  the order of the pipeline; nothing with one micro-batch
///   throws   UserError (78) when the schedule does not fit the meshes
std::optional<PipelineOrder> order_instructions(Program& program, const Graph& graph,
                                                const OrderOptions& options);

/// The order of each stage, "first: F0 F1 B0 B1 O": forward and backward by micro-batch, work of
/// the whole step without a number, "prologue" for work of micro-batches that all of them need (the
/// count of the labels), W0 where a split backward computes gradients of weights.
std::string order_text(const Program& program, const std::vector<std::string>& stage_names);

}  // namespace tessera

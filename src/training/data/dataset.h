// From files or seeds to batches. This module knows files, samples and batches, but no mesh:
// callers give the number of data-parallel parts and the rows that they need. It starts no threads;
// engine/loader loads the batches of later steps.
//
//   text_files    files and folders to text
//   vocabulary    text to tokens
//   sampler       the sample of each row of each step
//   batch         samples as named tensors, and batches of them
//   token_source  tokens in memory or in files
//   text_dataset  tokens to samples of a language model
//   array_files   images and tokens from files of other programs
//   drawings      synthetic images
//   markov        synthetic text
#pragma once

#include "training/data/array_files.h"
#include "training/data/batch.h"
#include "training/data/internal/drawings.h"
#include "training/data/internal/markov.h"
#include "training/data/internal/token_source.h"
#include "training/data/sampler.h"
#include "training/data/text_dataset.h"
#include "training/data/text_files.h"
#include "training/data/vocabulary.h"

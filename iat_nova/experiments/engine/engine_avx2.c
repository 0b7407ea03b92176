/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine for CPUs with AVX2, which compare eight ways at a time. All results are equal to those of engine.c.
 */
#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx2,bmi,bmi2")
#endif
#define VECTORS_AVX2
#define VARIANT(name) iat_avx2_##name
#include "engine.c"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif

#include "textflag.h"

// Eight rows at a time, each operation as in the generic loops of cpu_memory.go: the same rounding, so the
// same scores. What comes out for rows without a node is never read.

DATA one<>+0(SB)/8, $1.0
GLOBL one<>(SB), RODATA|NOPTR, $8
DATA half<>+0(SB)/8, $0.5
GLOBL half<>(SB), RODATA|NOPTR, $8
DATA hundred<>+0(SB)/8, $100.0
GLOBL hundred<>(SB), RODATA|NOPTR, $8
DATA fifty<>+0(SB)/8, $50
GLOBL fifty<>(SB), RODATA|NOPTR, $8
DATA magnitude<>+0(SB)/8, $0x7fffffffffffffff
GLOBL magnitude<>(SB), RODATA|NOPTR, $8

// func addLeastAVX512(into, usedA, allA, usedB, allB []int64, requestA, requestB, weight int64)
TEXT ·addLeastAVX512(SB), NOSPLIT, $0-144
	MOVQ into_base+0(FP), DI
	MOVQ into_len+8(FP), CX
	MOVQ usedA_base+24(FP), R8
	MOVQ allA_base+48(FP), R9
	MOVQ usedB_base+72(FP), R10
	MOVQ allB_base+96(FP), R11
	VPBROADCASTQ requestA+120(FP), Z16
	VPBROADCASTQ requestB+128(FP), Z17
	VPBROADCASTQ weight+136(FP), Z18
	VBROADCASTSD hundred<>(SB), Z19
	VPXORQ Z20, Z20, Z20
	XORQ AX, AX

least:
	CMPQ AX, CX
	JGE  leastDone
	VMOVDQU64 (R9)(AX*8), Z1        // capacity
	VMOVDQU64 (R11)(AX*8), Z3
	VPSUBQ (R8)(AX*8), Z1, Z0       // less what is in use, less the request
	VPSUBQ (R10)(AX*8), Z3, Z2
	VPSUBQ Z16, Z0, Z0
	VPSUBQ Z17, Z2, Z2
	VPMAXSQ Z20, Z0, Z0
	VPMAXSQ Z20, Z2, Z2
	VCVTQQ2PD Z0, Z0
	VCVTQQ2PD Z2, Z2
	VCVTQQ2PD Z1, Z1
	VCVTQQ2PD Z3, Z3
	VMULPD Z19, Z0, Z0
	VMULPD Z19, Z2, Z2
	VDIVPD Z1, Z0, Z0
	VDIVPD Z3, Z2, Z2
	VCVTTPD2QQ Z0, Z0
	VCVTTPD2QQ Z2, Z2
	VPADDQ Z2, Z0, Z0
	VPSRLQ $1, Z0, Z0
	VPMULLQ Z18, Z0, Z0
	VPADDQ (DI)(AX*8), Z0, Z0
	VMOVDQU64 Z0, (DI)(AX*8)
	ADDQ $8, AX
	JMP least

leastDone:
	VZEROUPPER
	RET

// func addBalanceAVX512(into, usedA, allA, usedB, allB []int64, balance []uint8, requestA, requestB, weight int64)
TEXT ·addBalanceAVX512(SB), NOSPLIT, $0-168
	MOVQ into_base+0(FP), DI
	MOVQ into_len+8(FP), CX
	MOVQ usedA_base+24(FP), R8
	MOVQ allA_base+48(FP), R9
	MOVQ usedB_base+72(FP), R10
	MOVQ allB_base+96(FP), R11
	MOVQ balance_base+120(FP), R12
	VPBROADCASTQ requestA+144(FP), Z16
	VPBROADCASTQ requestB+152(FP), Z17
	VPBROADCASTQ weight+160(FP), Z18
	VBROADCASTSD hundred<>(SB), Z19
	VBROADCASTSD one<>(SB), Z20
	VBROADCASTSD half<>(SB), Z21
	VPBROADCASTQ magnitude<>(SB), Z22
	VPBROADCASTQ fifty<>(SB), Z23
	XORQ AX, AX

balance:
	CMPQ AX, CX
	JGE  balanceDone
	VPADDQ (R8)(AX*8), Z16, Z0
	VPADDQ (R10)(AX*8), Z17, Z2
	VCVTQQ2PD Z0, Z0
	VCVTQQ2PD Z2, Z2
	VCVTQQ2PD (R9)(AX*8), Z1
	VCVTQQ2PD (R11)(AX*8), Z3
	VDIVPD Z1, Z0, Z0               // share
	VDIVPD Z3, Z2, Z2
	VMINPD Z20, Z0, Z0
	VMINPD Z20, Z2, Z2
	VSUBPD Z2, Z0, Z0               // deviation
	VMULPD Z21, Z0, Z0
	VPANDQ Z22, Z0, Z0
	VSUBPD Z0, Z20, Z0              // balance
	VMULPD Z19, Z0, Z0
	VCVTTPD2QQ Z0, Z0
	VPMOVZXBQ (R12)(AX*1), Z1
	VPSUBQ Z1, Z0, Z0
	VPADDQ Z23, Z0, Z0
	VPSRLQ $1, Z0, Z0
	VPADDQ Z23, Z0, Z0
	VPMULLQ Z18, Z0, Z0
	VPADDQ (DI)(AX*8), Z0, Z0
	VMOVDQU64 Z0, (DI)(AX*8)
	ADDQ $8, AX
	JMP balance

balanceDone:
	VZEROUPPER
	RET

// func passAVX512(into []uint64, scores []int64, ties []uint64, score int64, tie uint64)
TEXT ·passAVX512(SB), NOSPLIT, $0-88
	MOVQ into_base+0(FP), DI
	MOVQ into_len+8(FP), CX
	MOVQ scores_base+24(FP), R8
	MOVQ ties_base+48(FP), R9
	VPBROADCASTQ score+72(FP), Z16
	VPBROADCASTQ tie+80(FP), Z17
	SHLQ $3, CX                     // bytes of into
	XORQ AX, AX

pass:
	CMPQ AX, CX
	JGE  passDone
	VMOVDQU64 (R8), Z0
	VPCMPQ $6, Z16, Z0, K1          // score above the bar's
	VPCMPEQQ Z16, Z0, K2            // at it
	VPCMPUQ $5, (R9), Z17, K2, K2   // and the tie not above the bar's
	KORB K1, K2, K1
	KMOVB K1, (DI)(AX*1)
	ADDQ $64, R8
	ADDQ $64, R9
	INCQ AX
	JMP pass

passDone:
	VZEROUPPER
	RET

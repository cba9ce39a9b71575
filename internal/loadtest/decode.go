package loadtest

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// prefixBytes and headerBytes start an encoded histogram: before and after it is decompressed.
	prefixBytes, headerBytes = 8, 40
	// mostPlain is how long it can be with such a count in each of its buckets.
	mostPlain = headerBytes + mostCountBytes*24<<10
	// mostCount is more than any run measures. The sums of many runs stay far from the end of 64 bits.
	mostCount = 1 << 40
	// mostCountBytes is how long such a count is.
	mostCountBytes = 7
)

// Decode reads the histograms of a status. An agent may have written anything there.
func Decode(list []v1alpha1.LoadHistogram) (Measurements, error) {
	all := Measurements{}
	for i := range list {
		key := KeyOf(&list[i].LoadLatency)
		if err := all.readHistogram(key, list[i].Data); err != nil {
			return nil, err
		}
		if len(list[i].UnfinishedData) == 0 {
			continue
		}
		if err := all.readHistogram(key.unfinishedKey(), list[i].UnfinishedData); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readHistogram adds an encoded histogram.
func (m Measurements) readHistogram(key Key, data []byte) error {
	histogram, err := decodeHistogram(data)
	switch {
	case err != nil:
		return fmt.Errorf("decoding the histogram of %s: %w", key, err)
	case histogram.TotalCount() == 0:
	case m[key] == nil: // It has 190 KB, which need not be copied.
		m[key] = histogram
	default:
		m[key].Merge(histogram)
	}
	return nil
}

// decodeHistogram reads one. The library trusts its input: it takes as much memory as the header says, and panics on counts that have
// no bucket.
func decodeHistogram(data []byte) (histogram *hdrhistogram.Histogram, err error) {
	if err := checkHistogram(data); err != nil {
		return nil, err
	}
	defer func() {
		if broken := recover(); broken != nil {
			histogram, err = nil, fmt.Errorf("the counts are not counts: %v", broken)
		}
	}()
	return hdrhistogram.Decode(data)
}

// checkHistogram wants the encoding, range and precision of the histograms that are made here, and a text that is not too long.
func checkHistogram(data []byte) error {
	packed, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return err
	}
	if len(packed) < prefixBytes || int64(binary.BigEndian.Uint32(packed[4:])) != int64(len(packed)-prefixBytes) {
		return errors.New("it has another length than it says")
	}
	reader, err := zlib.NewReader(bytes.NewReader(packed[prefixBytes:]))
	if err != nil {
		return err
	}
	plain, err := io.ReadAll(io.LimitReader(reader, mostPlain+1))
	if err != nil {
		return err
	}
	if len(plain) < headerBytes || len(plain) > mostPlain {
		return fmt.Errorf("%d bytes are too few or too many", len(plain))
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(plain[at:])) } //nolint:gosec // It is compared only.
	if binary.BigEndian.Uint32(plain[12:]) != digits || number(16) != shortest || number(24) != longest {
		return errors.New("its range or precision is another one than that of load tests")
	}
	return checkCounts(plain[headerBytes:])
}

// checkCounts wants counts whose sum is one too. They are zigzag numbers in groups of seven bits; a negative one is so many
// buckets without any.
func checkCounts(plain []byte) error {
	sum := uint64(0)
	for len(plain) > 0 {
		number, size := uint64(0), 0
		for shift := 0; ; shift += 7 {
			if size == len(plain) || size == mostCountBytes {
				return errors.New("a count has no end")
			}
			group := plain[size]
			number |= uint64(group&0x7f) << shift
			size++
			if group < 0x80 {
				break
			}
		}
		plain = plain[size:]
		if number&1 == 0 {
			sum += number >> 1
		}
		if number > mostCount || sum > mostCount {
			return errors.New("the counts are more than there can be")
		}
	}
	return nil
}

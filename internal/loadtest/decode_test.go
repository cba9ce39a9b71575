package loadtest_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// forged is a histogram in its encoding, with any header and counts.
func forged(lowest, highest int64, digits, length int32, counts []byte) []byte {
	var plain, packed, whole bytes.Buffer
	for _, field := range []any{int32(0x1c849313), length, int32(0), digits, lowest, highest, 1.0, counts} {
		_ = binary.Write(&plain, binary.BigEndian, field)
	}
	writer := zlib.NewWriter(&packed)
	_, _ = writer.Write(plain.Bytes())
	_ = writer.Close()
	for _, field := range []any{int32(0x1c849314), int32(packed.Len()), packed.Bytes()} {
		_ = binary.Write(&whole, binary.BigEndian, field)
	}
	return []byte(base64.StdEncoding.EncodeToString(whole.Bytes()))
}

func histogram(data []byte) []v1alpha1.LoadHistogram {
	return []v1alpha1.LoadHistogram{{LoadLatency: v1alpha1.LoadLatency{Measurement: v1alpha1.LoadPodReady}, Data: data}}
}

// What an agent writes into a status may be anything: it is an error, and costs neither the hub's memory nor its life.
// Claim: No histogram breaks the hub. Broken: the library decodes without a check: it panics. Also: FuzzDecode.
func TestHistogramsThatAreNoneAreErrors(t *testing.T) {
	const highest = 3_600_000_000
	for name, data := range map[string][]byte{
		"nothing":                   nil,
		"no base64":                 []byte("%%%"),
		"short":                     []byte("HISTFA=="),
		"a negative length":         []byte(base64.StdEncoding.EncodeToString([]byte{0x1c, 0x84, 0x93, 0x14, 0xff, 0xff, 0xff, 0xff, 1})),
		"not compressed":            []byte(base64.StdEncoding.EncodeToString([]byte{0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 1, 1})),
		"other digits":              forged(1, highest, 5, 1, []byte{2}),
		"another range":             forged(1, math.MaxInt64/2, 3, 1, []byte{2}),
		"more counts than a bucket": forged(1, highest, 3, 5, []byte{0xff, 0xff, 0xff, 0x0f, 2}),
		"no count's end":            forged(1, highest, 3, 1, []byte{0x80}),
		"more than there can be":    forged(1, highest, 3, 9, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}),
		"a large text":              forged(1, highest, 3, 4<<20, bytes.Repeat([]byte{0}, 4<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadtest.Decode(histogram(data))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("decoding the histogram of PodReady")))
		})
	}
	decoded, err := loadtest.Decode(histogram(forged(1, highest, 3, 2, []byte{0, 2})))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(decoded.Summarize(ready).P99.Duration).To(Equal(time.Microsecond), "the others are refused for what is wrong with them")
}

func FuzzDecode(f *testing.F) {
	measured := loadtest.Measurements{}
	measured.Record(ready, time.Second, 3)
	list, _, err := measured.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(list[0].Data, []byte{0, 2}, int32(3))
	f.Add([]byte{}, []byte{0xff, 0xff, 0xff, 0x0f, 2}, int32(5))
	f.Fuzz(func(t *testing.T, data, counts []byte, digits int32) {
		for _, data := range [][]byte{data, forged(1, 3_600_000_000, digits, int32(len(counts)), counts)} {
			decoded, err := loadtest.Decode(histogram(data))
			if err != nil {
				continue
			}
			merged := loadtest.Measurements{}
			merged.Merge(decoded)
			merged.Merge(decoded)
			whole := merged.Match(ready)
			if got, once := whole.TotalCount(), decoded.Match(ready).TotalCount(); once < 0 || got != 2*once {
				t.Errorf("merged twice %d measurements become %d", once, got)
			}
			got := merged.Summarize(ready)
			if got.P50.Duration > got.P99.Duration || got.P99.Duration > got.Max.Duration || got.Max.Duration > 2*time.Hour {
				t.Errorf("the quantiles are no quantiles: %+v", got)
			}
		}
	})
}

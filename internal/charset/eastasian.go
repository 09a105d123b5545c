package charset

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// The characters that make up most of any text in Chinese and Korean, and the
// kanji taught first in Japanese. A text read in the wrong encoding scatters
// over all thousands of characters, and few of them are of these.
const (
	usualSimplified = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运笔网站页首登录版视频免费下载论坛注册友情链接联系邮箱服务信息中心新闻"

	usualTraditional = "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給世位次度門任常先海通教兒原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管期市直德資命山金指克許統區保至隊形社便空決治展馬科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記南品住告類求據程北邊死張該交規萬取拉格望覺術領共確傳師觀清今切院讓識候帶導爭運筆網站頁首登錄版視頻免費下載論壇註冊友情連結聯絡信箱服務資訊中心新聞灣臺台香港請您嗎吧喔啊"

	usualKanji = "日一国人年大十二本中長出三時行見月後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先名川千水半男西電校語土木聞食車何南万毎白天母火右読友左休父雨会同事自社発者地業方新場員立開手力問代明動京目通言理体田主題意不作用度強公持野以思家世多正安院心界教文元重近考画海売知道集別物使品計死特私始朝運終台広住無真有口少町料工建空急止送切転研足究楽起着店病質待試族銀早映親験英医仕去味写字答夜音注帰古歌買悪図週室歩風紙黒花春赤青館屋色走秋夏習駅洋旅服夕的部分内対表法性関設定機能情報検索最新記全選市県区当相取引合実現政経済化民法力連絡"

	usualHangul = "이다는에의을가고하한를은로지기사도으서인자해아어그리나대시있과정수들일라만것전보제부여상구습니장주면원성스조생세관계용동방국문안위오신화공소유모적우게비경명학현회된되했할합와무행연진중내개분마트때요말민미거선실바물없출통등발강교더영입운결단심직년월재반당약금업본차산던였었까러음치야않력같못후호파터드크르데두불체남식간형양작및권종독디감험법류변표처려울달배복건석급태열초예또각온알편검색글외노추천포코설최역새저히받길친점래살속목집날람론토너희활판매련른네카애잘임평도량박김님"
)

// usualSigns are what tells where there are hardly any characters.
const usualSigns = "“”‘’—…、。，：；！？「」（）《》"

// usual is a set of characters of the basic plane.
type usual [1 << 10]uint64

func (u *usual) has(r rune) bool { return r < 1<<16 && u[r>>6]&(1<<(r&63)) != 0 }

func newUsual(chars string, ranges ...[2]rune) *usual {
	u := new(usual)
	add := func(r rune) { u[r>>6] |= 1 << (r & 63) }
	for _, r := range chars {
		add(r)
	}
	for _, p := range ranges {
		for r := p[0]; r <= p[1]; r++ {
			add(r)
		}
	}
	return u
}

// script is an encoding with what is usual in it.
type script struct {
	e     *Encoding
	lang  string
	usual *usual
}

var scripts = sync.OnceValue(func() []script {
	japanese := newUsual(usualKanji, [2]rune{'ぁ', 'ゖ'}, [2]rune{'ァ', 'ヺ'}, [2]rune{'ー', 'ー'})
	return []script{
		{gbk, "zh", newUsual(usualSimplified)},
		{big5, "zh", newUsual(usualTraditional)},
		{shiftJIS, "ja", japanese},
		{eucJP, "ja", japanese},
		{eucKR, "ko", newUsual(usualHangul)},
	}
})

// Shares of usual characters, in percent, from which a text is taken for what
// the encoding makes of it. A text of a few characters must be clearer.
const (
	enoughUsual = 33
	fewChars    = 4
	enoughOfFew = 60
	hintShare   = 12
	maxBadShare = 4
)

// eastAsian finds the multi-byte encoding in which the text has the most usual
// characters; nil if it is none.
func eastAsian(sample []byte, lang hint) (*Encoding, uint8) {
	var best *Encoding
	var top int
	for _, s := range scripts() {
		good, bad := wellFormed(s.e, sample)
		if bad*100 > maxBadShare*good {
			continue
		}
		share, n := s.share(sample)
		if lang.is(s.lang) {
			share += hintShare
		}
		need := enoughUsual
		if n < fewChars {
			need = enoughOfFew
		}
		if n >= 2 && share >= need && share > top {
			best, top = s.e, share
		}
	}
	return best, uint8(min(99, 40+top))
}

// share decodes the text and returns how many percent of its characters, signs
// apart, are usual, and their number.
func (s script) share(sample []byte) (percent, n int) {
	text, err := s.e.NewDecoder().Bytes(sample)
	if err != nil {
		return 0, 0
	}
	found, signs := 0, 0
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch {
		case r >= 0x2000 && r < 0x3040, r >= 0xFF00 && r < 0xFF61: // signs, of all alike
			if strings.ContainsRune(usualSigns, r) {
				signs++
			}
		case s.usual.has(r):
			found++
			n++
		case r == utf8.RuneError:
			n += 3
		default:
			n++
		}
	}
	if n < fewChars {
		// A few signs in a text of ASCII.
		found, n = found+signs, n+signs
	}
	if n == 0 {
		return 0, 0
	}
	return found * 100 / n, n
}
